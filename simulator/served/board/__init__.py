"""The board's management controller: its sensors, and the two protocols through which others read them."""
