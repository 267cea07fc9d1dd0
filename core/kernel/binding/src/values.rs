//! Values from Python.

use plait_matching::constraint::Value;
use plait_matching::number::Number;
use pyo3::exceptions::PyOverflowError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

/// Converts an attribute's value by its exact type, as filters do.
#[inline]
pub(crate) fn value_of<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<Value<'a>> {
    if let Ok(float) = given.cast_exact::<PyFloat>() {
        return Ok(Number::from_float(float.value()).map_or(Value::Other, Value::Number));
    }
    if let Ok(text) = given.cast_exact::<PyString>() {
        return Ok(Value::Text(text.to_str()?));
    }
    if let Ok(int) = given.cast_exact::<PyInt>() {
        return Ok(Value::Number(number_of_int(int)?));
    }
    if let Ok(bool) = given.cast_exact::<PyBool>() {
        return Ok(Value::Bool(bool.is_true()));
    }
    Ok(if given.is_none() { Value::Absent } else { Value::Other })
}

/// Converts an int of any size.
#[inline]
pub(crate) fn number_of_int(int: &Bound<'_, PyInt>) -> PyResult<Number> {
    match int.extract::<i64>() {
        Ok(small) => Ok(Number::Int(small)),
        Err(error) if error.is_instance_of::<PyOverflowError>(int.py()) => big_number(int),
        Err(error) => Err(error),
    }
}

#[cold]
fn big_number(int: &Bound<'_, PyInt>) -> PyResult<Number> {
    let py = int.py();
    let bits: usize = int.call_method0(intern!(py, "bit_length"))?.extract()?;
    let signed = pyo3::types::PyDict::new(py);
    signed.set_item(intern!(py, "signed"), true)?;
    let bytes = int.call_method(intern!(py, "to_bytes"), (bits / 8 + 1, intern!(py, "big")), Some(&signed))?;
    Ok(Number::from_signed_bytes(bytes.cast::<PyBytes>()?.as_bytes()))
}
