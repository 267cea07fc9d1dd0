//! MACs of events between two brokers: a keyed digest that only these two can compute.

use blake2b_simd::{Params, State};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The BLAKE2 personalisation that separates these digests from all others under the same key.
const PERSON: &[u8] = b"plait event";

/// Bytes of a MAC.
const PROOF_BYTES: usize = 8;

/// Longest block that is hashed under the key directly. Longer blocks are hashed without the key first.
const SHORT_BYTES: usize = 1024;
const DIGEST_BYTES: usize = 32;

/// Compute the MACs of events under the key of one pair of brokers.
#[pyclass(frozen, module = "plait_kernel")]
pub(crate) struct EventProver {
    keyed: State,
}

#[pymethods]
impl EventProver {
    #[new]
    fn new(key: &[u8]) -> PyResult<Self> {
        if key.is_empty() || key.len() > blake2b_simd::KEYBYTES {
            return Err(PyValueError::new_err("a key has 1 to 64 bytes"));
        }
        Ok(Self { keyed: Params::new().hash_length(PROOF_BYTES).key(key).personal(PERSON).to_state() })
    }

    /// Return the MAC of an event block at this position in the stream of `root`.
    fn prove(&self, root: u64, position: u64, flags: u8, block: &Bound<'_, PyBytes>) -> u64 {
        let mut place = [0; 17];
        place[..8].copy_from_slice(&root.to_be_bytes());
        place[8..16].copy_from_slice(&position.to_be_bytes());
        place[16] = flags;
        let mut state = self.keyed.clone();
        state.update(&place);
        let block = block.as_bytes();
        if block.len() <= SHORT_BYTES {
            state.update(block);
        } else {
            state.update(Params::new().hash_length(DIGEST_BYTES).hash(block).as_bytes());
        }
        let proof = state.finalize();
        u64::from_be_bytes(proof.as_bytes().try_into().expect("the digest has eight bytes"))
    }
}
