"""The websocket message layer between GM and the edge nodes' Local Controllers."""
