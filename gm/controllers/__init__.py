"""The controllers: from resources to pods, services, statuses and what edge nodes must hold."""
