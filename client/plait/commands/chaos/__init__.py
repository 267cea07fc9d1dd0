"""`plait chaos`: delays, cuts and freezes links; kills, pauses and restarts brokers."""
