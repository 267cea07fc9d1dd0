//! Filters from Python: reads `filter.normal` object by object.

use plait_matching::Form;
use plait_matching::constraint::Constraint;
use plait_matching::number::Number;
use plait_matching::shape::{Operator, Shape};
use plait_matching::value_set::{Bound as End, Point, ValueSet};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyFrozenSet, PyInt, PyString, PyTuple};

use crate::values::number_of_int;

type Conjunction = Vec<(Box<str>, Constraint)>;

/// Reads the normal form of a filter, or returns the error that Python raises if it has none.
pub(crate) fn form_of(filter: &Bound<'_, PyAny>) -> PyResult<Form> {
    let normal = filter.getattr(intern!(filter.py(), "normal"))?;
    let alternatives = normal.cast::<PyTuple>()?.iter().map(|alternative| conjunction_of(&alternative));
    Ok(Form(alternatives.collect::<PyResult<_>>()?))
}

fn conjunction_of(alternative: &Bound<'_, PyAny>) -> PyResult<Conjunction> {
    let constraints = alternative.cast::<PyDict>()?.iter();
    constraints.map(|(name, constraint)| Ok((text_of(&name)?, constraint_of(&constraint)?))).collect()
}

fn constraint_of(given: &Bound<'_, PyAny>) -> PyResult<Constraint> {
    let py = given.py();
    let bools = given.getattr(intern!(py, "bools"))?;
    let bools = bools.cast::<PyFrozenSet>()?;
    let bools = if bools.is_empty() { [false; 2] } else { [bools.contains(false)?, bools.contains(true)?] };
    Ok(Constraint {
        numbers: value_set_of(&given.getattr(intern!(py, "numbers"))?, number_of)?,
        texts: value_set_of(&given.getattr(intern!(py, "texts"))?, text_of)?,
        bools,
        others: given.getattr(intern!(py, "others"))?.is_truthy()?,
        absent: given.getattr(intern!(py, "absent"))?.is_truthy()?,
    })
}

fn value_set_of<T: Point>(
    given: &Bound<'_, PyAny>,
    point: fn(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Option<ValueSet<T>>> {
    if given.is_none() {
        return Ok(None);
    }
    let py = given.py();
    let points = given.getattr(intern!(py, "points"))?;
    if !points.is_none() {
        return Ok(Some(ValueSet::of_points(members(&points, point)?)));
    }
    let end = |at: Bound<'_, PyAny>, open: &Bound<'_, PyString>| -> PyResult<Option<End<T>>> {
        if at.is_none() {
            return Ok(None);
        }
        Ok(Some(End { at: point(&at)?, open: given.getattr(open)?.is_truthy()? }))
    };
    let set = ValueSet {
        low: end(given.getattr(intern!(py, "low"))?, intern!(py, "low_open"))?,
        high: end(given.getattr(intern!(py, "high"))?, intern!(py, "high_open"))?,
        points: None,
        holes: members(&given.getattr(intern!(py, "holes"))?, point)?,
        shapes: members(&given.getattr(intern!(py, "shapes"))?, shape_of)?,
    };
    Ok(Some(set.sorted()))
}

fn members<T>(set: &Bound<'_, PyAny>, member: fn(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<Vec<T>> {
    let set = set.cast::<PyFrozenSet>()?;
    if set.is_empty() {
        return Ok(Vec::new());
    }
    set.iter().map(|item| member(&item)).collect()
}

fn shape_of(given: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let (operator, text, negated): (String, String, bool) = given.extract()?;
    let operator = match operator.as_str() {
        "startswith" => Operator::StartsWith,
        "endswith" => Operator::EndsWith,
        "contains" => Operator::Contains,
        "like" => Operator::Like,
        unknown => return Err(PyValueError::new_err(format!("no text operator is called {unknown:?}"))),
    };
    Ok(Shape { operator, text: text.into(), negated })
}

fn text_of(given: &Bound<'_, PyAny>) -> PyResult<Box<str>> {
    Ok(given.cast::<PyString>()?.to_str()?.into())
}

fn number_of(given: &Bound<'_, PyAny>) -> PyResult<Number> {
    if let Ok(float) = given.cast::<PyFloat>() {
        return Number::from_float(float.value()).ok_or_else(|| PyValueError::new_err("NaN is no bound"));
    }
    match given.cast::<PyInt>() {
        Ok(int) => number_of_int(int),
        Err(_) => Err(PyTypeError::new_err("a bound of numbers is an int or a float")),
    }
}
