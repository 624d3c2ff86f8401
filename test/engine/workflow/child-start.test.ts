import type { MillraceError, Steps } from "millrace";
import { instances } from "millrace/operate";
import { skipPauses } from "millrace/testing";
import { expect, it } from "vitest";
import { actOnWork, type Work } from "../../../packages/millrace/src/operate/pause-work.ts";
import { type LabCall, lab, labs } from "../../probe/lab.ts";
import { blocked, paired, parked } from "../../probe/turns.ts";
import { app } from "../../probe/worker.ts";
import { dieAt, fresh, keeperRound, operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { crowd } from "../intake/flowing.ts";
import { errorOf, held, outputOf, runLab } from "../lab.ts";
import { TurnKey } from "../lanes/turning.ts";
import { childrenOf, labCode, only } from "./children.ts";

const countOf = (parent: string, count: number) =>
  until(
    () => childrenOf(parent),
    (children) => children.length === count,
  );

/** Returns the result of a child, or the end of a child that did not complete. */
const resultOf = (child: Promise<unknown>) =>
  child.then(
    (result) => result ?? null,
    (error: MillraceError) => error.detail.child ?? error.code,
  );

it("children in a lane run one after another per key, after the earlier commands of the lane, also if the process dies at their start", async () => {
  using _ = skipPauses();
  const turn = new TurnKey(blocked);
  const open = turn.gate("earlier");
  await turn.ask("earlier");
  await turn.seenBy("earlier begins");
  const names = ["a", "b", "c"];
  for (const name of names) turn.run(name, async () => `${name} done`);
  const name = fresh("lab");
  const { died } = dieAt("O01 committed, not relayed", name);
  const { instanceId } = await runLab(
    ({ step }) => Promise.all(names.map((one) => step.child("turn", blocked.workflow, turn.payload(one), { key: one }))),
    { name },
  );
  await countOf(instanceId, 3);
  await keeperRound();
  expect(died()).toBe(true);
  expect(await turn.seen()).toEqual(["earlier begins"]);
  open();
  const ended = () => keeperRound().then(() => statusOf(instanceId));
  expect(await until(ended, (status) => status === "complete")).toBe("complete");
  expect(await outputOf(instanceId)).toEqual(["a done", "b done", "c done"]);
  const [begins, ends, ...seen] = await turn.seen();
  expect([begins, ends]).toEqual(["earlier begins", "earlier ends"]);
  expect(seen.toSorted()).toEqual(names.flatMap((one) => [`${one} begins`, `${one} ends`]));
  for (let at = 0; at < seen.length; at += 2) expect(seen[at + 1]).toBe(seen[at]?.replace("begins", "ends"));
});

it.each([blocked, parked])(
  "a failed child in the lane $queue.name is an error of its parent, and a retry of both completes",
  async (of) => {
    const turn = new TurnKey(of);
    const mend = turn.breaks("a");
    const { instanceId } = await runLab(({ step }) => step.child("turn", of.workflow, turn.payload("a")));
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const { id } = await only(instanceId);
    expect(await errorOf(instanceId)).toMatchObject({ code: "child_failed" });
    mend();
    await instances.act(probeEnv, operator, "retry", id, { reason: "test" });
    expect(await reaches(id, "complete")).toBe("complete");
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "test" });
    expect(await reaches(instanceId, "complete")).toBe("complete");
  },
);

it.each([blocked, paired])("a child that would wait in the lane $queue.name behind its own parent is refused", async (of) => {
  const turn = new TurnKey(of);
  turn.run("child", async () => "done");
  turn.run("parent", ({ step }) => step.child("turn", of.workflow, turn.payload("child")));
  const id = await turn.ask("parent");
  expect(await reaches(id, "complete", "errored")).toBe("errored");
  expect(await errorOf(id)).toMatchObject({ code: "config_invalid", message: expect.stringContaining(`the lane of the instance ${id}`) });
  expect(await childrenOf(id)).toEqual([]);
});

it("a child in the lane of its parent with another key runs", async () => {
  const [turn, other] = [new TurnKey(blocked), new TurnKey(blocked)];
  other.run("child", async () => "done");
  turn.run("parent", ({ step }) => step.child("turn", blocked.workflow, other.payload("child")));
  const id = await turn.ask("parent");
  expect(await reaches(id, "complete", "errored")).toBe("complete");
});

it("a child that would wait for the slot of its parent, or of the parent of its parent, is refused", async () => {
  const { nameOf, tenantId } = await crowd(2);
  const note = { k: "k", other: "other" };
  const child = (step: Steps, name: string, key: string) => step.child("site", lab, { name: nameOf(name), note: key });
  labs.set(nameOf("between"), ({ step }) => child(step, "child", note.k));
  const [own, above] = await Promise.all(
    [({ step }: LabCall) => child(step, "child", note.k), ({ step }: LabCall) => resultOf(child(step, "between", note.other))].map((code) =>
      runLab(code, { tenantId, note: note.k }),
    ),
  );
  expect(await reaches(own?.instanceId ?? "", "complete", "errored")).toBe("errored");
  const refused = { code: "config_invalid", message: expect.stringContaining("the slot of the instance") };
  expect(await errorOf(own?.instanceId ?? "")).toMatchObject(refused);
  expect(await outputOf(above?.instanceId ?? "")).toMatchObject({ status: "errored", ...refused });
});

it("children of one parent never exceed the limit of a slot that another instance occupies", async () => {
  const { send, command, end, begun, hasBegun, most, nameOf, tenantId } = await crowd(2);
  await send("earlier");
  await hasBegun("earlier");
  const names = Array.from({ length: 6 }, (_, nth) => `c${nth}`);
  for (const name of names) command(name);
  const { instanceId } = await runLab(
    ({ step }) => Promise.all(names.map((name) => step.child("site", lab, { name: nameOf(name), note: "one" }, { key: name }))),
    { tenantId, note: fresh("parent") },
  );
  await countOf(instanceId, 6);
  await until(
    async () => begun().length,
    (count) => count === 2,
  );
  end("all");
  expect(await reaches(instanceId, "complete")).toBe("complete");
  expect(most()).toBe(2);
  expect(begun()).toHaveLength(7);
});

it("a paused workflow accepts children, and starts them once after the resume", async () => {
  const by = { tenantId: fresh("tenant"), actor: "tess", scopes: ["operate"] as never };
  const work: Work = { kind: "workflow", name: "lab", allTenants: false };
  const log: string[] = [];
  const child = labCode(async ({ payload }) => void log.push(payload.note));
  const state = { begun: false, paused: false };
  const { instanceId } = await runLab(
    async ({ step }) => {
      state.begun = true;
      await step.read("until paused", () => held(() => state.paused));
      await Promise.all(["a", "b"].map((note) => step.child("site", lab, { name: child, note }, { key: note })));
    },
    { tenantId: by.tenantId },
  );
  await held(() => state.begun);
  await actOnWork(probeEnv, app, by, "pause", work, { reason: "closed" });
  state.paused = true;
  const [first] = await countOf(instanceId, 2);
  for (let round = 0; round < 3; round++) await keeperRound();
  expect([await statusOf(instanceId), log]).toEqual(["waiting", []]);
  expect(await instances.get(probeEnv, by, first?.id ?? "")).toMatchObject({ status: "accepted", held: "Paused by tess: closed" });
  await actOnWork(probeEnv, app, by, "resume", work, { reason: "open" });
  const ended = () => keeperRound().then(() => statusOf(instanceId));
  expect(await until(ended, (status) => status === "complete")).toBe("complete");
  expect(log.toSorted()).toEqual(["a", "b"]);
});

it("a throttled child starts at its time, or when an operator releases it, and a cancel of it ends the wait of its parent", async () => {
  const { command, send, end, begun, hasBegun, nameOf, tenantId, act } = await crowd({ throttle: { limit: 1, periodMs: 3_600_000 } });
  await send("earlier");
  await hasBegun("earlier");
  for (const name of ["a", "b"]) command(name);
  end("all");
  const { instanceId } = await runLab(
    ({ step }) =>
      Promise.all(["a", "b"].map((name) => resultOf(step.child("site", lab, { name: nameOf(name), note: "one" }, { key: name })))),
    { tenantId, note: fresh("parent") },
  );
  const [first, second] = await countOf(instanceId, 2);
  for (let round = 0; round < 2; round++) await keeperRound();
  expect(begun()).toEqual(["earlier"]);
  const delayed = await rows<{ due: number }>("SELECT due_at - accepted_at AS due FROM millrace_instances WHERE parent = ?1", instanceId);
  for (const { due } of delayed) expect(due).toBeGreaterThan(3_000_000);
  expect(await act(first?.id ?? "", "release")).toMatchObject({ status: 202 });
  expect(await reaches(first?.id ?? "", "complete")).toBe("complete");
  expect(await act(second?.id ?? "", "cancel")).toMatchObject({ status: 202 });
  expect(await reaches(instanceId, "complete")).toBe("complete");
  const ends = (await outputOf(instanceId)) as ({ status?: string } | null)[];
  expect(ends.filter((one) => one?.status === "terminated")).toMatchObject([{ id: second?.id }]);
});

it("a debounced child that a later command replaces is an error of its parent", async () => {
  const { command, send, end, nameOf, tenantId } = await crowd({ debounce: { periodMs: 3_600_000 } });
  command("a");
  end("all");
  const { instanceId } = await runLab(({ step }) => resultOf(step.child("site", lab, { name: nameOf("a"), note: "one" })), {
    tenantId,
    note: fresh("parent"),
    delaySeconds: 1,
  });
  await rows("UPDATE millrace_instances SET due_at = 1, check_at = 1 WHERE id = ?1", instanceId);
  await until(
    async () => {
      await keeperRound();
      return childrenOf(instanceId);
    },
    (children) => children.length === 1,
  );
  const { id } = await only(instanceId);
  const later = await send("b");
  const ended = () => keeperRound().then(() => statusOf(instanceId));
  expect(await until(ended, (status) => status === "complete")).toBe("complete");
  const message = expect.stringContaining(later);
  expect(await outputOf(instanceId)).toEqual({ id, status: "skipped", code: "replaced", message });
});
