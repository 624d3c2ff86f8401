import { keeperOf } from "millrace/worker";
import { afterAll, describe, expect, it } from "vitest";
import { dieAt, fresh, probeEnv, reaches, rows, start } from "../harness.ts";
import { PLANTS, type Plant, removePlants } from "./plants.ts";
import { CHECKS, lookAgain, noted, walk } from "./walking.ts";

const kinds = CHECKS.flatMap((check) => Object.entries(check.kinds));

let told: ReturnType<typeof tell> | undefined;

/** Creates every kind of divergence once, scans three times, and returns the findings after each scan. */
const story = () => (told ??= tell());

async function tell() {
  // The first round of a keeper checks all sleeping instances.
  await keeperOf(probeEnv).round();
  const plants: Plant[] = [];
  for (const plant of PLANTS) plants.push(await plant());
  const after = async () => new Map(await Promise.all(plants.map(async ({ kind, what }) => [kind, await noted(what)] as const)));
  await walk();
  const first = await after();
  const whats = plants.map(({ what }) => what);
  await lookAgain(...whats);
  // Instances with a due check are checked by the keeper's next round.
  await keeperOf(probeEnv).round();
  const second = await after();
  const healed = new Map<string, boolean>();
  for (const { kind, healed: isHealed } of plants) if (isHealed) healed.set(kind, await isHealed());
  await lookAgain(...whats);
  return { plants, first, second, healed, third: await after() };
}

afterAll(async () => removePlants((await story()).plants));

describe("The reconciliation scan with planted divergences", () => {
  it("finds every kind", async () => {
    const { plants } = await story();
    expect(plants.map(({ kind }) => kind).sort()).toEqual(kinds.map(([kind]) => kind).sort());
  });

  it.each(kinds.map(([kind]) => kind))(
    "the reconciliation scan reports %s as suspected at first, because the write may be in transit",
    async (kind) => {
      expect((await story()).first.get(kind)).toMatchObject([{ kind, state: "suspected", repairs: 0 }]);
    },
  );

  it.each(kinds.filter(([, { fix }]) => fix).map(([kind]) => kind))(
    "the reconciliation scan repairs %s at the second scan, and detects the repair at the third",
    async (kind) => {
      const { second, healed, third } = await story();
      expect(second.get(kind)).toMatchObject([{ state: "repairing", repairs: 1 }]);
      expect(healed.get(kind)).toBe(true);
      expect(third.get(kind)).toMatchObject([{ state: "repaired" }]);
    },
  );

  it.each(kinds.filter(([, { fix }]) => !fix).map(([kind]) => kind))(
    "the reconciliation scan reports %s as open from the second scan on, for as long as it exists",
    async (kind) => {
      const { second, third } = await story();
      expect(second.get(kind)).toMatchObject([{ state: "open", repairs: 0 }]);
      expect(third.get(kind)).toMatchObject([{ state: "open", repairs: 0 }]);
    },
  );
});

it("the keeper starts an unfinished instance that the platform does not know, and the reconciliation scan reports nothing", async () => {
  const name = fresh("gone");
  dieAt("A03 accept committed, not enqueued");
  await start(name, [{ do: "commit", name: "work" }]).catch(() => undefined);
  const [{ id } = { id: "" }] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
  await rows("UPDATE millrace_instances SET status = 'running', seen = 1, check_at = 1 WHERE id = ?1", id);
  await walk();
  expect(await noted(id)).toEqual([]);
  await keeperOf(probeEnv).round();
  expect(await reaches(id, "complete", "errored")).toBe("complete");
});
