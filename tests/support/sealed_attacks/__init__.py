"""Write the cases of `tests/vectors/sealed_v2`: attacks on sealed events, of outsiders and of members who lie.

    PYTHONPATH=tests/support python -m sealed_attacks

Everything follows from a seed. Tests read the written files and compare them with what this program would write.
"""
