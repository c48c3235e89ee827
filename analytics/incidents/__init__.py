"""Incidents: findings gathered on the entity that explains them, from opening to closing."""
