"""Share of each supply of its bus against its own past: joints anywhere between its source and the bus.

Kirchhoff's and Ohm's laws show a joint in three ways, and one is enough:

- Its share fell in the steps of the load as in the mean (`swing_share`), or by the same part at every load
  (`load_fit`). A set point takes off less the more current flows, and nothing off the steps. No voltage is needed:
  meters at the common bus and voltages in coarse steps do.
- Its output falls less steeply than its siblings' with the steps of the load (`path_rise`), or rose over them in
  proportion to its current (`load_fit`), as under a loop that shares the current. An offset of a meter is the same at
  any load.
- It carries a smaller share of the bus, and its own output lies higher over its siblings' than before, by more than
  meters drift. A set point that fell lowers the voltage with the share.

Set points wander by some hundredths of a per cent as a supply warms, which moves the share of a stiff one by several
per cent, and meters drift by up to two per mille within minutes. So a share or a voltage that moved by little proves
nothing at a steady load. One-sided CUSUM after Page, Biometrika 41, 1954, and an effect that must be there too: an
exponentially weighted mean.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.change.control_charts import CusumState, cusum_step
from analytics.connectivity import GroupArray
from analytics.supply.branches import DEAD_RATIO, MIN_USUAL_A, group_most, group_sum, known_count
from analytics.supply.difference_fit import MAINS_V
from analytics.supply.load_fit import LoadFit
from analytics.supply.path_rise import PathRise, PathSteps
from analytics.supply.read_together import ReadTogether
from analytics.supply.share_block import ShareMeans
from analytics.supply.slow_change import THRESHOLD_SD
from analytics.supply.step_sums import over_siblings
from analytics.supply.swing_share import GAIN, MOST_SUM_SD, STEPS_FLOOR, STEPS_RATIO, SURE_SD, SwingTest
from analytics.supply.usual_share import (
    CAUTION_SD,
    FOLLOWS_NS,
    HEAVY_RATIO,
    LIGHT_RATIO,
    SHARE_FLOOR,
    VOLTS_FLOOR,
    UsualShare,
)
from physics.rail_classes import times_measured
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray, filled, reset_where

# heuristic: what may be on its way to a finding teaches nothing.
_CALM_SD = 0.5 * THRESHOLD_SD
# heuristic: references of voltage meters drift by 10 to 20 millionths a kelvin; over ten kelvin that is as much.
LEAST_RISE = 2e-4
# heuristic: voltage meters of supplies drift by up to two per mille within minutes, as they and their dividers warm: a
# level that was learnt at one end lies four below the other.
METER_DRIFT = 4e-3
# heuristic: they need minutes for that, two here; a joint that gets loose raises the voltage in the same block.
_DRIFTS_NS = 120 * NS_PER_S
# heuristic: readings in turn and a load that beat for longer than this are rarer than joints.
_BEAT_NS = 300 * NS_PER_S
# heuristic: supplies of one bus lie within some per cent of each other; others are of another rail.
_SAME_RAIL_RATIO = 0.1
# heuristic: a load that moves by a tenth of the current moves a meter by several of its steps.
_LOAD_MOVES_RATIO = 0.1
# heuristic: a joint takes current off its supply or leaves it as it was; one that gained a tenth has another set point.
_MORE_SHARE = 0.1
# heuristic: a slope that is known to worse than a twentieth teaches no level.
_MOST_SWING_SD = 0.05
# heuristic: a current that moves by fewer steps of its meter shows its rounding, and not whether it follows another.
_SHOWN_STEPS = 5.0
# heuristic: rounding moves a mean by half a step each way, now and when it was learnt, and so does that of a sibling.
_LEVEL_STEPS = 2.0
# Differences of levels err by half a step (`rounding`): the supply's and its siblings', now and as learnt, by a step.
_SLOPE_STEPS = SURE_SD
# heuristic: where half of a bus falls together, the load moved between buses that were taken for one.
_MOST_FALLING = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BusBlock:
    """One block seen from the bus, shape ``(n_supplies,)``; NaN for a supply that carries nothing.

    `share` is the logarithm of the current over the mean of the `carriers`, `load_a`; `volts` that of the voltage
    over the mean of the siblings; `swing` that of the steps of the current over the mean of the siblings', where
    the load moves and all carry throughout, `swing_sd` its standard deviation; `unlike` is the part of the current's
    variance that the siblings leave there, `count_ratio` the step of its meter over its steps. `path_ohm` is the slope
    of the voltage over the current in the steps over the siblings', `path_sd_ohm` its standard deviation,
    `path_step_v` the step of the voltage's meter over the part of the current that moves. `gpus_w` is the power of the
    GPUs of the bus. `ready` marks supplies with siblings that carry, on one rail, `in_turn` those of a bus of which one
    is read in rows of its own.
    """

    current_a: FloatArray
    voltage_v: FloatArray
    share: FloatArray
    volts: FloatArray
    swing: FloatArray
    swing_sd: FloatArray
    unlike: FloatArray
    count_ratio: FloatArray
    path_ohm: FloatArray
    path_sd_ohm: FloatArray
    path_step_v: FloatArray
    load_a: FloatArray
    gpus_w: FloatArray
    carriers: FloatArray
    ready: MaskArray
    in_turn: MaskArray

    @staticmethod
    def of(means: ShareMeans, groups: GroupArray) -> "BusBlock":
        """Return the block of a bus. A current that repeats exactly under a load that moves is a meter that hangs."""
        own_a, own_v = means.current_a, means.voltage_v
        known = np.maximum(known_count(own_a, groups), 1.0)
        everyone_a, everyone_swings_a = group_sum(own_a, groups) / known, group_sum(means.swing_a, groups) / known
        hangs = (means.swing_a <= 0.0) & (everyone_swings_a > _LOAD_MOVES_RATIO * everyone_a)
        carries = ~hangs & (own_a > MIN_USUAL_A / times_measured(own_v)) & (own_a > DEAD_RATIO * everyone_a)
        current_a, voltage_v = np.where(carries, own_a, np.nan), np.where(carries, own_v, np.nan)
        carriers = known_count(current_a, groups)
        load_a = group_sum(current_a, groups) / np.where(carriers > 0, carriers, np.nan)
        rail_v = group_sum(voltage_v, groups) / np.where(carriers > 0, carriers, np.nan)
        strange = np.where(np.abs(voltage_v / rail_v - 1.0) > _SAME_RAIL_RATIO, 1.0, 0.0)
        # Feeds of mains are in parallel behind the supplies alone: no joint of one lifts its own meter.
        ready = carries & (carriers >= 2) & (voltage_v > 0.0) & ~(voltage_v >= MAINS_V)
        ready &= group_sum(strange, groups) == 0
        others_v = (carriers * rail_v - voltage_v) / np.where(ready, carriers - 1.0, np.nan)
        return BusBlock(
            current_a=current_a,
            voltage_v=voltage_v,
            share=np.log(np.where(ready, current_a / load_a, np.nan)),
            volts=np.log(np.where(ready, voltage_v / others_v, np.nan)),
            **_slopes(means, np.where(ready, carriers, np.nan), load_a, groups),
            count_ratio=np.nan_to_num(means.step_a) / np.where(means.swing_a > 0.0, means.swing_a, np.nan),
            load_a=load_a,
            gpus_w=np.full(len(own_a), np.nan) if means.gpus_w is None else means.gpus_w,
            carriers=carriers,
            ready=ready,
            in_turn=np.zeros(len(own_a), dtype=np.bool_)
            if means.in_turn is None
            else group_sum(np.where(means.in_turn, 1.0, 0.0), groups) > 0,
        )


def _slopes(means: ShareMeans, carriers: FloatArray, load_a: FloatArray, groups: GroupArray) -> dict[str, FloatArray]:
    """Return the share of each supply in the steps and its path by them, NaN where the load stands still.

    A supply whose steps are as large as its mean reaches nothing now and then, and its set point shows in its steps.
    """
    steps_a = np.where(np.isfinite(carriers), means.swing_a, np.nan)
    rests = group_sum(np.where(steps_a > means.current_a, 1.0, 0.0), groups) > 0
    sum_a = group_sum(steps_a, groups)
    moves = ~rests & (steps_a > 0.0) & (sum_a > _LOAD_MOVES_RATIO * carriers * load_a)
    nothing = np.full(len(steps_a), np.nan)
    if means.steps is None or means.step_v is None:
        others_a = np.where(moves & (sum_a > steps_a), (sum_a - steps_a) / (carriers - 1.0), np.nan)
        swing = np.log(np.where(moves, steps_a, np.nan) / others_a)
        return {
            "swing": swing,
            "swing_sd": np.zeros(len(swing)),
            "unlike": nothing,
            "path_ohm": nothing,
            "path_sd_ohm": nothing,
            "path_step_v": nothing,
        }
    steps = means.steps
    path_ohm = np.where(moves, steps.path_ohm, np.nan)
    return {
        "swing": np.where(moves, steps.share, np.nan),
        "swing_sd": np.where(moves, steps.share_sd, np.nan),
        "unlike": np.where(moves & (steps_a > _SHOWN_STEPS * np.nan_to_num(means.step_a)), steps.unlike, np.nan),
        "path_ohm": over_siblings(path_ohm, groups),
        "path_sd_ohm": np.where(moves, steps.path_sd_ohm, np.nan),
        "path_step_v": means.step_v * load_a / np.where(moves, steps_a, np.nan),
    }


def _falls_alone(fall: FloatArray, carriers: FloatArray, groups: GroupArray, *, low: float) -> MaskArray:
    """Return a mask of supplies on whose bus so few fell that the load did not move to another bus."""
    falling = group_sum(np.where(fall < low, 1.0, 0.0), groups)
    return np.asarray(falling <= np.maximum(_MOST_FALLING * (carriers - 1.0), 1.0), dtype=np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShareTest:
    """Test of each supply, shape ``(n_supplies,)``.

    `fall` and `rise` are exponentially weighted means of the logarithms of share and voltage against the usual, less
    what another load may explain. `since_ns` is when the CUSUM began to rise, `risen_ns` that of the output; `judged`
    marks supplies of the newest block, `levelled` those whose levels count in it, `in_turn` those that are read in
    turn, `certain` those at a load at which the usual share is known. The others are of the newest judged block.
    """

    cusum: CusumState
    swing: SwingTest
    shares: LoadFit
    output: LoadFit
    path: PathRise
    fall: FromZero
    rise: FromZero
    since_ns: TimeArray
    risen_ns: TimeArray
    together: ReadTogether
    judged: MaskArray
    levelled: MaskArray
    in_turn: MaskArray
    certain: MaskArray
    current_a: FloatArray
    voltage_v: FloatArray
    bus_a: FloatArray

    def fallen(
        self,
        usual: UsualShare,
        groups: GroupArray,
        now_ns: int,
        *,
        step_v: FloatArray,
        hangs: MaskArray,
        low_ratio: float,
    ) -> MaskArray:
        """Return a mask of supplies with a joint that got worse; see the ways above.

        A rise within the rounding of the voltage meters of the bus, of steps `step_v`, is none. Nor is one of a voltage
        that `hangs`, which lies ever higher over its siblings' as the load grows.
        """
        sure, stepped = self.levelled & (self.cusum.below > THRESHOLD_SD), self.judged & self.swing.certain
        risen = self.levelled & self.output.certain & ~hangs
        # Of readings that beat with the load, each supply lies off for a while, and is back.
        sure &= ~self.in_turn | (now_ns - self.since_ns > _BEAT_NS)
        risen &= ~self.in_turn | (now_ns - self.risen_ns > _BEAT_NS)
        path = self.judged & ~hangs & self.path.risen(least=LEAST_RISE, steps=_SLOPE_STEPS)
        if not (sure | stepped | risen | path).any():
            return risen
        noise, noise_v = usual.share.noise(SHARE_FLOOR), usual.volts.noise(VOLTS_FLOOR)
        least_v = _LEVEL_STEPS * group_most(step_v, groups) / self.voltage_v
        steady_v = np.maximum(SURE_SD * noise_v, least_v)
        drifted = METER_DRIFT * np.clip((now_ns - self.since_ns) / _DRIFTS_NS, 0.0, 1.0)
        far = sure & (self.fall < np.minimum(np.log(low_ratio), -SURE_SD * noise))
        steady = far & self.shares.is_constant(usual.share.slope_sd)
        by_steps = stepped & self.swing.fallen(usual.swing, low_ratio=STEPS_RATIO)
        # A set point that fell takes the voltage of its own output down too.
        joint = ~self.swing.by_meter & (self.rise > -np.maximum(steady_v, METER_DRIFT))
        low = _MOST_FALLING * np.log(low_ratio)
        few, few_steps = (_falls_alone(fall, usual.carriers, groups, low=low) for fall in (self.fall, self.swing.fall))
        risen &= self.output.goes_with_load(usual.volts.slope_sd) & self.output.follows_steps()
        risen &= (self.output.slope() > np.maximum(least_v, LEAST_RISE)) & (self.rise > least_v)
        # Of a voltage whose gain fell both the level and the slope did.
        risen |= path & (self.rise > -METER_DRIFT)
        risen &= self.fall < np.minimum(SURE_SD * noise, _MORE_SHARE)
        higher = far & ~hangs & (self.rise > np.maximum(steady_v, drifted))
        fallen = ((higher | (steady & joint)) & few) | (by_steps & joint & few_steps)
        return np.asarray(fallen | risen, dtype=np.bool_)

    def usual_again(self, *, clear_ratio: float) -> MaskArray:
        """Return a mask of supplies whose share is back above a ratio of the usual, and whose voltage rises no more."""
        back = np.minimum(self.fall, self.swing.fall) > np.log(clear_ratio)
        level = ((self.rise < LEAST_RISE) | ~self.output.certain) & (self.path.rise < LEAST_RISE)
        return np.asarray(self.judged & self.certain & back & level, dtype=np.bool_)

    def forget(self, where: MaskArray) -> "ShareTest":
        """Reset the test of some supplies."""
        return reset_where(self, filled(ShareTest, len(where)), where) if where.any() else self

    def cleared(self, where: MaskArray) -> "ShareTest":
        """Return the test with the sums of some supplies at zero again."""
        if not where.any():
            return self
        swing = replace(self.swing, cusum=self.swing.cusum.cleared(where))
        shares, output = self.shares.forget(where), self.output.forget(where)
        path = self.path.cleared(where)
        return replace(self, cusum=self.cusum.cleared(where), swing=swing, shares=shares, output=output, path=path)


def take_block(
    usual: UsualShare, test: ShareTest, block: BusBlock, now_ns: int, *, active: MaskArray, groups: GroupArray
) -> tuple[UsualShare, ShareTest]:
    """Judge one block and learn from it; nothing is learnt or forgotten on a bus with an `active` finding."""
    same = block.carriers == usual.carriers
    judged = usual.known & block.ready & same & (block.load_a >= LIGHT_RATIO * usual.load_a)
    light = np.where(judged, usual.load_a / block.load_a - 1.0, 0.0)
    heavy = np.where(judged, block.load_a / usual.load_a - 1.0, 0.0)
    if (gap := now_ns - usual.share.last_ns > FOLLOWS_NS).any():
        test = replace(test, shares=test.shares.after_gap(gap), output=test.output.after_gap(gap))
    path, together = _path_steps(usual, block), test.together.after_block(block.unlike)
    levelled = judged & together.levels_count(groups)
    test = replace(test, together=together, judged=judged, levelled=levelled)
    test = _tested(usual, test, block, now_ns, path=path, light=light, heavy=heavy)
    # Most of the time nothing is active anywhere.
    free = ~active if not active.any() else group_sum(np.where(active, 1.0, 0.0), groups) == 0
    calm = judged & free & (np.maximum(test.cusum.below, test.swing.cusum.below) < _CALM_SD)
    usual, changed = usual.counted(block.ready, block.carriers)
    level = calm & (np.maximum(test.output.cusum.above, test.path.cusum.above) < _CALM_SD)
    taught = calm & levelled
    # A slope that is hardly known is no level.
    swing = np.where(block.swing_sd < _MOST_SWING_SD, block.swing, np.nan)
    swing_learnt = usual.swing.taught(calm, swing, STEPS_FLOOR).learn(calm | (block.ready & ~usual.known), swing)
    test = replace(test, path=test.path.learn(level, path))
    usual = replace(
        usual,
        share=usual.share.taught_by_steps(taught, block.share, light, SHARE_FLOOR, now_ns=now_ns),
        volts=usual.volts.taught_by_steps(taught & level, block.volts, heavy, VOLTS_FLOOR, now_ns=now_ns),
        swing=swing_learnt,
    )
    usual = usual.learn(block.ready, share=block.share, volts=block.volts, load_a=block.load_a, carriers=block.carriers)
    # What falls is judged by what was learnt, however light the load was at which that was.
    falls = group_sum(np.where(calm | ~judged, 0.0, 1.0), groups) > 0
    outgrown = level & ~falls & (block.load_a > HEAVY_RATIO * usual.load_a)
    over = (changed | outgrown) & free
    return usual.forget(over), test.forget(over)


def _tested(
    usual: UsualShare,
    test: ShareTest,
    block: BusBlock,
    now_ns: int,
    *,
    path: PathSteps,
    light: FloatArray,
    heavy: FloatArray,
) -> ShareTest:
    share, volts = usual.share.off(block.share, light), usual.volts.off(block.volts, heavy)
    doubt, doubt_v = usual.share.doubt(light), usual.volts.doubt(heavy)
    sigma = np.hypot(usual.share.noise(SHARE_FLOOR), doubt)
    sigma_v = np.hypot(usual.volts.noise(VOLTS_FLOOR), doubt_v)
    judged, levelled = test.judged, test.levelled
    cusum = cusum_step(test.cusum, np.where(levelled, share, np.nan), mean=0.0, sigma=sigma)
    sure_fall, sure_rise = _sure_fall(share, doubt), -_sure_fall(-volts, doubt_v)
    total_a = block.load_a * block.carriers
    return ShareTest(
        cusum=replace(cusum, below=np.minimum(cusum.below, MOST_SUM_SD)),
        swing=test.swing.after_block(
            usual.swing,
            swing=np.where(judged, block.swing, np.nan),
            swing_sd=np.where(judged, block.swing_sd, 0.0),
            count_ratio=block.count_ratio,
            mean_off=share,
            others_a=np.where(judged, total_a - block.current_a, np.nan),
            gpus_w=block.gpus_w,
            bus_share=block.current_a / total_a,
        ),
        shares=test.shares.after_block(levelled, -share, light + 1.0, sigma),
        output=test.output.after_block(levelled, volts, block.current_a / usual.load_a, sigma_v),
        path=test.path.after_block(path),
        fall=np.where(levelled, test.fall + GAIN * (sure_fall - test.fall), test.fall),
        rise=np.where(levelled, test.rise + GAIN * (sure_rise - test.rise), test.rise),
        since_ns=np.where(levelled & (test.cusum.below <= 0.0), now_ns, test.since_ns),
        risen_ns=np.where(levelled & (test.output.cusum.above <= 0.0), now_ns, test.risen_ns),
        together=test.together,
        judged=judged,
        levelled=levelled,
        in_turn=block.in_turn,
        certain=judged & (doubt < SHARE_FLOOR),
        current_a=np.where(judged, block.current_a, test.current_a),
        voltage_v=np.where(judged, block.voltage_v, test.voltage_v),
        bus_a=np.where(judged, total_a, test.bus_a),
    )


def _path_steps(usual: UsualShare, block: BusBlock) -> PathSteps:
    """Return what the steps of a block show of the paths, at the usual current."""
    scale = np.where(usual.known & block.ready, usual.load_a / block.voltage_v, np.nan)
    return PathSteps(
        drop=block.path_ohm * scale,
        sd=block.path_sd_ohm * scale,
        step=block.path_step_v / block.voltage_v * usual.load_a / block.load_a,
        share_off=block.swing - usual.swing.level,
        share_sd=block.swing_sd,
    )


def _sure_fall(off: FloatArray, doubt: FloatArray) -> FloatArray:
    """Return a difference without what another load may explain of a fall, which never turns it into a rise."""
    return np.where(off < 0.0, np.minimum(off + CAUTION_SD * doubt, 0.0), off)
