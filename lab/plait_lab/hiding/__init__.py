"""What sealed events hide, checked in the generic group model: the production scheme on exponents in place of points.

Cryptographic tests ask "is it refused?". This package asks "can somebody tell?": it takes all group elements that a
party has, and looks for a product of pairings that tells two hidden values apart.
"""
