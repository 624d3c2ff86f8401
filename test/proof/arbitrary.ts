import fc from "fast-check";
import { BOUNDARIES, type Boundary, type Fault, PHASES, WAYS } from "./fault.ts";
import { type Beside, type Flow, LIMITED } from "./flow.ts";
import type { Order } from "./orders.ts";
import {
  type Act,
  type Ask,
  type Leaf,
  leavesOf,
  MAX_LEAVES,
  type Own,
  type Program,
  STEP_RETRIES,
  type Upstream,
  type Wait,
} from "./program.ts";
import type { Alone, Case } from "./prove.ts";
import type { World } from "./world.ts";

/** The common value, and with a probability of 1 in `odds` the rare one. */
const sometimes = <T>(what: fc.Arbitrary<T>, odds = 4): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: odds - 1, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: what });
const rarely = sometimes(fc.constant(true), 6);

const UNTOLD = ["fails", "drops", "busy", "garbles", "cuts"] as const;
const upstream: fc.Arbitrary<Upstream> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ is: fc.constantFrom("refuses" as const, "limits" as const), times: fc.integer({ min: 1, max: 3 }) }),
  },
  { weight: 6, arbitrary: fc.record({ is: fc.constantFrom(...UNTOLD), times: fc.constant(1) }) },
  { weight: 3, arbitrary: fc.record({ is: fc.constant("slow" as const), times: fc.constant(1) }) },
  { weight: 3, arbitrary: fc.record({ is: fc.constant("never" as const), times: fc.constant(1) }) },
  { weight: 3, arbitrary: fc.record({ is: fc.constant("away" as const), times: fc.constantFrom(1, STEP_RETRIES + 3) }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constantFrom("hangs" as const, "floods" as const), times: fc.constant(1) }) },
);

const inline = sometimes(fc.constantFrom("inline" as const, "inline" as const, "flips" as const), 2);
const said = { emits: sometimes(fc.constant(true), 3), large: rarely, stays: rarely, inline };
const act: fc.Arbitrary<Act> = fc
  .record({ do: fc.constantFrom("keyed", "natural", "lookup", "once"), upstream: sometimes(upstream, 3), ...said })
  // An undoable step is an inline step only if its key is claimed first.
  .chain((one) =>
    one.inline && (one.do === "keyed" || one.do === "natural")
      ? sometimes(fc.constant(true), 2).map((stays) => ({ ...one, stays }))
      : fc.constant(one),
  )
  // An operator answers each unknown outcome by hand: two are enough.
  .map((one): Act => (one.do === "once" && one.upstream?.is === "away" ? { ...one, upstream: { is: "away", times: 1 } } : one));
const own: fc.Arbitrary<Own> = fc.record({
  do: fc.constantFrom("commit", "commit", "read"),
  fails: sometimes(fc.constantFrom("once", "for good", "later"), 5),
  ...said,
});
const AGAIN: readonly Wait["comes"][] = ["reminded", "pair"];
const COMES: readonly Wait["comes"][] = ["early", "asked", "asked", "twice", "never", ...AGAIN];
const wait: fc.Arbitrary<Wait> = fc
  .record({
    do: fc.constant("wait" as const),
    comes: fc.constantFrom(...COMES),
    brief: fc.boolean(),
    shared: sometimes(fc.constant(true), 4),
  })
  .map((one): Wait => (one.shared ? { ...one, comes: "asked" } : one))
  .map((one): Wait => ({ ...one, brief: one.comes === "never" || (one.brief && !AGAIN.includes(one.comes)) }));
const ask: fc.Arbitrary<Ask> = fc.record({
  do: fc.constant("ask"),
  answer: fc.constantFrom("yes", "no", "never"),
  otherwise: fc.constantFrom("approve", "reject"),
});
const leaf: fc.Arbitrary<Leaf> = fc.oneof(
  { weight: 8, arbitrary: act },
  { weight: 4, arbitrary: own },
  { weight: 2, arbitrary: wait },
  { weight: 1, arbitrary: ask },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("told" as const), said: fc.constantFrom("before", "beside") }) },
  { weight: 1, arbitrary: fc.constant({ do: "sleep" as const }) },
  { weight: 1, arbitrary: fc.constant({ do: "return" as const }) },
);

/** A permanent refusal that the code catches, with an immediate fallback: most of it is not recorded for a while. */
const instead: fc.Arbitrary<Program> = fc.record({
  do: fc.constant("try" as const),
  bare: fc.constant(true as const),
  part: act.map((one): Act => ({ ...one, upstream: { is: "never", times: 1 } })),
  next: fc.tuple(act, fc.constantFrom("slow" as const, "hangs" as const), rarely).map(([one, is, looks]): Program => {
    const unheard: Act = { ...one, upstream: one.upstream ?? { is, times: 1 } };
    return looks ? { do: "seq", parts: [{ do: "read" }, unheard] } : unheard;
  }),
});

const { program } = fc.letrec<{ program: Program }>((again) => ({
  program: fc.oneof(
    { maxDepth: 3, depthSize: "small", withCrossShrink: true },
    { weight: 3, arbitrary: leaf },
    { weight: 1, arbitrary: instead },
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constantFrom("seq", "all"), parts: fc.array(again("program"), { minLength: 1, maxLength: 4 }) }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("race"), parts: fc.array(again("program"), { minLength: 2, maxLength: 3 }) }) },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constantFrom("map", "loop"), items: fc.integer({ min: 1, max: 3 }), part: again("program") }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constantFrom("try", "try", "beside"), part: again("program"), next: again("program") }) },
  ) as fc.Arbitrary<Program>,
}));

/** A program of several parts that ends within seconds. */
const throws: fc.Arbitrary<Leaf> = fc.record({ do: fc.constant("throw" as const), run: fc.constantFrom(1, 1, 2) });
const whole: fc.Arbitrary<Program> = fc
  .record({
    do: fc.constant("seq" as const),
    // The code's own error is not caught: it would take another branch once it is no longer thrown.
    parts: fc.array(fc.oneof({ weight: 5, arbitrary: program }, { weight: 1, arbitrary: throws }), { minLength: 1, maxLength: 5 }),
  })
  .filter((one) => leavesOf(one).length <= MAX_LEAVES);

/** The maximum number of steps of a program beside another one. */
const SMALL = 5;

const click = fc.record({
  verb: fc.constantFrom("retry" as const, "retry from" as const, "undo" as const, "restart" as const),
  afterMs: fc.integer({ min: 0, max: 1500 }),
  nth: fc.nat(5),
});
/** Operators' actions: a pause delays a run by seconds, so most programs have none. */
const order: fc.Arbitrary<Order> = fc.record({
  verb: fc.constantFrom("cancel", "cancel", "stop", "restart", "restart", "pause", "pause"),
  afterMs: fc.integer({ min: 0, max: 1000 }),
  two: rarely,
});
const world: fc.Arbitrary<World> = fc.record({
  copies: fc.integer({ min: 0, max: 2 }),
  conflicts: rarely,
  malformed: rarely,
  poison: rarely,
  stranger: rarely,
  mistakes: rarely,
  late: sometimes(fc.constantFrom("late" as const, "skipped" as const), 4),
  large: rarely,
  again: rarely,
  old: rarely,
  clicks: fc.array(click, { maxLength: 2 }),
  orders: sometimes(fc.array(order, { minLength: 1, maxLength: 2 }), 2).map((orders) => orders ?? []),
  skips: sometimes(fc.constantFrom(1, 2), 4),
  closes: rarely,
  direct: sometimes(fc.constant(true), 3),
  overdue: rarely,
  restarts: fc.integer({ min: 0, max: 2 }),
  breaks: sometimes(fc.array(fc.integer({ min: 0, max: 1500 }), { minLength: 1, maxLength: 2 }), 4),
  ends: fc.constantFrom("stays", "undone", "undone and retried"),
});

const fault: fc.Arbitrary<Fault> = fc.record({
  phase: fc.constantFrom(...PHASES),
  boundary: fc.constantFrom(...BOUNDARIES, "object"),
  nth: fc.nat(9),
  way: fc.constantFrom(...WAYS),
  times: sometimes(fc.constantFrom(2, 5), 5),
});

/** An operator's answer is in transit to the run. */
const untold: fc.Arbitrary<Fault> = fc.record({
  phase: fc.constant("run" as const),
  boundary: fc.constant("order" as const),
  nth: fc.constantFrom(0, 0, 1, 2),
  way: fc.constantFrom("before" as const, "after" as const, "refused" as const),
});
const isAnswered = (leaf: Leaf): boolean =>
  leaf.do === "ask" ? leaf.answer !== "never" : leaf.do === "once" && leaf.upstream !== undefined && !DEFINITE.has(leaf.upstream.is);
const DEFINITE: ReadonlySet<Upstream["is"]> = new Set(["refuses", "never", "limits", "slow"]);

/** A program with faults and external events. */
const alone = (of: fc.Arbitrary<Program>, faults: number, around: fc.Arbitrary<World>): fc.Arbitrary<Alone> =>
  fc.record({ program: of, faults: fc.array(fault, { maxLength: faults }), untold: sometimes(untold, 2), world: around }).map(valid);

/** A small program beside others. Its rows remain until the flow control is judged, and only one program has a stranger. */
const besides: fc.Arbitrary<Beside> = fc
  .tuple(
    alone(
      whole.filter((one) => leavesOf(one).length <= SMALL),
      1,
      inFlow(world.map((one) => ({ ...one, stranger: undefined, restarts: 0, ends: "stays" }))),
    ),
    fc.integer({ min: 0, max: 2000 }),
  )
  .map(([one, afterMs]) => ({ ...one, afterMs }));
const flow: fc.Arbitrary<Flow> = fc.record({ is: fc.constantFrom(...LIMITED), beside: fc.array(besides, { minLength: 1, maxLength: 3 }) });

/** Any valid case: a program, up to two faults, and external events; some have flow control, and others of the same key. */
export const cases: fc.Arbitrary<Case> = fc.oneof(
  { weight: 2, arbitrary: alone(whole, 2, world) },
  { weight: 1, arbitrary: fc.tuple(alone(whole, 2, inFlow(world)), flow).map(([main, flow]) => ({ ...main, flow })) },
);

/** The external events of a program with flow control: an operator may start it although it waits. */
function inFlow(around: fc.Arbitrary<World>): fc.Arbitrary<World> {
  return fc.tuple(around, sometimes(fc.integer({ min: 0, max: 2000 }), 5)).map(([one, afterMs]) => ({
    ...one,
    old: undefined,
    orders: afterMs === undefined ? one.orders : [...one.orders, { verb: "release", afterMs }],
  }));
}

function valid({ program, faults, untold, world }: { program: Program; faults: Fault[]; untold: Fault | undefined; world: World }): Alone {
  const all = [...(untold && leavesOf(program).some(({ leaf }) => isAnswered(leaf)) ? [untold] : []), ...faults];
  return {
    program: crossing(program, all),
    faults: all.map((one) => reachable(world, one)).map(bearable),
    world: {
      ...world,
      // Requires an item of another tenant.
      ...((world.stranger || all.some(({ boundary }) => boundary === "bucket")) && { large: true }),
      // Requires a skippable item.
      ...(world.late === "skipped" && { malformed: true, conflicts: true }),
    },
  };
}

/** An object that is unavailable for all attempts of an event makes it a dead letter: then only an operator delivers it. */
function bearable(fault: Fault): Fault {
  if (fault.boundary === "object")
    return { ...fault, way: fault.way === "after" || fault.way === "twice" ? fault.way : "before", times: undefined };
  // Deliveries to a run are retried: a fault has an effect only if the second call fails as well.
  const isQuick = fault.way !== "late" && fault.way !== "stale";
  return fault.boundary === "instance" && isQuick ? { ...fault, times: fault.times ?? 3 } : fault;
}

/** Makes a run cross a rare boundary. */
const CROSSES: Partial<Record<Boundary, Leaf>> = {
  object: { do: "commit", emits: true },
  queue: { do: "commit", emits: true },
  instance: { do: "wait", comes: "asked", brief: false },
};

/** The program with an additional step for each fault that would otherwise have no call to fail. */
function crossing(program: Program, faults: readonly Fault[]): Program {
  const first = [...new Set(faults.flatMap(({ boundary }) => CROSSES[boundary] ?? []))];
  return first.length === 0 ? program : { do: "seq", parts: [...first, program] };
}

/** A lower bound of the usual calls of a run at a boundary: a later fault has no call to fail. */
const CALLS: Record<Boundary, number> = { database: 8, recorder: 8, queue: 1, create: 1, instance: 3, order: 3, bucket: 2, object: 1 };

/** A fault at a probable place: in a phase that will occur, at a boundary that is crossed there. */
function reachable({ restarts, ends }: World, { phase, boundary, nth, ...how }: Fault): Fault {
  const comes = phase === "run" || (phase === "restart" ? restarts > 0 : ends !== "stays");
  if (!comes || phase === "run") return { ...how, phase: "run", boundary, nth: nth % CALLS[boundary] };
  const isElsewhere = boundary === "queue" || boundary === "create" || boundary === "object" || boundary === "order";
  const crossed = isElsewhere ? "recorder" : boundary;
  return { ...how, phase, boundary: crossed, nth: nth % Math.ceil(CALLS[crossed] / 2) };
}
