"""What operators see and request: incident stories, commands to the guard, releases, verification."""
