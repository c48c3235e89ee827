"""Notification of people about incidents: message text, recipients and delivery."""
