import { erasure } from "millrace/operate";
import { expect, it } from "vitest";
import { lab } from "../../probe/lab.ts";
import { blocked } from "../../probe/turns.ts";
import { fresh, keeperRound, probeEnv, reaches, rows, until } from "../harness.ts";
import { justBefore } from "../keeper/aged.ts";
import { runLab } from "../lab.ts";
import { TurnKey } from "../lanes/turning.ts";
import { childrenOf, labCode, scripted } from "../workflow/children.ts";

/** Runs passes of a tenant's deletion until a pass finds no rows. */
async function erase(tenant: string): Promise<void> {
  const again = async (remove: () => Promise<number>) => {
    let all = 0;
    for (let gone = 1; gone > 0; all += gone) gone = await remove();
    return all;
  };
  for (let found = 1; found > 0; ) {
    found = await again(() => erasure.stopInstances(probeEnv, tenant, ""));
    found += await again(() => erasure.removeUnsent(probeEnv, tenant));
    found += await again(() => erasure.objects(probeEnv, tenant));
    found += await again(() => erasure.removeInstances(probeEnv, tenant, ""));
    for (const [table, key] of Object.entries(erasure.tenantTables)) {
      found += await again(() => erasure.removeRows(probeEnv, tenant, table, key));
    }
  }
}

/** The tables with rows that contain one of these texts. */
async function tablesWith(...texts: string[]): Promise<string[]> {
  const tables = await rows<{ name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'millrace_%'");
  const found = tables.map(async ({ name }) => {
    const all = JSON.stringify(await rows(`SELECT * FROM ${name}`));
    return texts.some((text) => all.includes(text)) ? [name] : [];
  });
  return (await Promise.all(found)).flat();
}

it("the deletion of a tenant removes parents with complete, running and queued children, and nothing appears later", async () => {
  const tenantId = fresh("tenant").toLowerCase();
  const { child: running, state } = scripted("held");
  const done = labCode(async () => "done");
  const turn = new TurnKey(blocked, tenantId);
  const open = turn.gate("first");
  await turn.ask("first");
  await turn.seenBy("first begins");
  const { instanceId } = await runLab(
    ({ step }) =>
      Promise.all([
        step.child("site", lab, { name: running }, { key: "running" }),
        step.child("site", lab, { name: done }, { key: "done" }),
        step.child("site", blocked.workflow, turn.payload("second"), { key: "queued" }),
      ]),
    { tenantId },
  );
  const children = await until(
    () => childrenOf(instanceId),
    (all) => all.length === 3 && all.some(({ status }) => status === "complete"),
  );
  await until(
    () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND told_at IS NOT NULL", instanceId),
    (told) => told.length === 1,
  );
  await erase(tenantId);
  state.now = "fine";
  open();
  for (let round = 0; round < 3; round++) await keeperRound();
  expect(await tablesWith(tenantId, instanceId, ...children.map(({ id }) => id))).toEqual([]);
});

it("a child that a delayed write accepts after the deletion of its tenant is removed with all rows of that write", async () => {
  const tenantId = fresh("tenant").toLowerCase();
  const child = labCode(async () => "done", fresh("late"));
  let parent = "";
  await justBefore(
    child,
    () => erase(tenantId),
    async () => {
      parent = (await runLab(({ step }) => step.child("site", lab, { name: child }), { tenantId })).instanceId;
      await until(
        () => childrenOf(parent),
        (children) => children.length === 1,
      );
    },
  );
  const [late] = await childrenOf(parent);
  await reaches(late?.id ?? "", "complete");
  expect(await tablesWith(parent)).toEqual(expect.arrayContaining(["millrace_inbox", "millrace_waits"]));
  await erase(tenantId);
  expect(await tablesWith(tenantId, parent, late?.id ?? "")).toEqual([]);
});
