"""Methods that anybody would try, each with one score; the tuple is all of them."""

from evaluation.power.methods.cusum import fit_cusum
from evaluation.power.methods.forest import fit_forest
from evaluation.power.methods.levels import fit_levels
from evaluation.power.methods.method import Method
from evaluation.power.methods.residual import fit_residual
from evaluation.power.methods.steps import fit_differences
from evaluation.power.methods.volts import fit_volts

METHODS: tuple[Method, ...] = (
    Method(name="threshold on volts", fit=fit_volts, needs_volts=True),
    Method(name="regression of levels", fit=fit_levels, needs_volts=True),
    Method(name="regression of differences", fit=fit_differences, needs_volts=True),
    Method(name="CUSUM on watts", fit=fit_cusum),
    Method(name="physics residual", fit=fit_residual),
    Method(name="isolation forest", fit=fit_forest),
)
