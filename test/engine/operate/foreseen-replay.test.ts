import { call, MillraceError, on, send, start } from "millrace";
import { deadLetters } from "millrace/operate";
import { catalog } from "millrace/worker";
import { describe, expect, it } from "vitest";
import { routesOf, startsOf } from "../../probe/consumers.ts";
import { ProbeDone, ProbeFollow, ProbeRouted } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { countDone, followProbe } from "../../probe/workflows.ts";
import { deliver, event, fresh, probeEnv, rows } from "../harness.ts";
import { lettersAbout, outboxAbout, reader } from "../intake/letter.ts";
import { routed } from "../intake/routed.ts";

it("a replay of a dead letter that its route cannot process is refused, also as a dry run, until the route is fixed", async () => {
  const name = fresh("routed");
  const wrong = on(
    ProbeRouted,
    send(ProbeFollow, ({ name }) => ({ name, step: 7 as never })),
  );
  const right = on(
    ProbeRouted,
    send(ProbeFollow, ({ name }) => ({ name, step: "mended" })),
  );
  await routed(wrong)([event("probe.routed", name, { name, parts: [] })], 3);
  const [letter] = await lettersAbout(name);
  const id = letter?.id ?? "";
  const app = (route: typeof wrong) => catalog({ consumers: [startsOf(followProbe), routesOf(route)] });

  expect(await deadLetters.planReplay(probeEnv, app(wrong), reader, id, undefined)).toMatchObject({
    outcome: "refused",
    why: expect.stringContaining("cannot send probe.follow"),
    refused: { code: "invalid_payload", detail: { issues: [{ path: expect.stringContaining("step") }] } },
  });
  await expect(deadLetters.replay(probeEnv, app(wrong), reader, id, { reason: "r" })).rejects.toMatchObject({ code: "invalid_payload" });
  expect(await lettersAbout(name)).toMatchObject([{ id, state: "open" }]);
  expect(await outboxAbout(name)).toEqual([]);

  expect(await deadLetters.planReplay(probeEnv, app(right), reader, id, undefined)).toMatchObject({
    outcome: "follows",
    refused: null,
  });
  expect(await deadLetters.replay(probeEnv, app(right), reader, id, { reason: "r" })).toMatchObject({ sent: true });
});

describe("A dead letter of an event with the key of other work", () => {
  /** Sends two events with one key. Returns the dead letter of the second one. */
  async function reused() {
    const name = fresh("reused");
    const said = ["first", "second"].map((step) => event("probe.done", name, { name, step }, `${name}/done`));
    for (const one of said) expect(await deliver("probe-events", [one])).toEqual({ acked: 1, retried: 0 });
    const letters = await lettersAbout(name);
    expect(letters).toMatchObject([{ state: "open", reason: "idempotency_key_reused" }]);
    return { name, second: said[1], id: letters[0]?.id ?? "" };
  }

  it.each(["known", "pruned"])(
    "a replay of a dead letter is refused while its key is %s, and the dead letter remains open",
    async (key) => {
      const { name, id } = await reused();
      if (key === "pruned") {
        const where = "FROM millrace_instances WHERE workflow = 'count-done' AND subject = ?1";
        await rows(
          `INSERT INTO millrace_tombstones SELECT unhex(id), unhex(substr(fingerprint, 1, 12)), unixepoch() * 1000 ${where}`,
          name,
        );
        await rows(`DELETE ${where}`, name);
      }
      const refused = { code: "idempotency_key_reused" };
      expect(await deadLetters.planReplay(probeEnv, app, reader, id, undefined)).toMatchObject({ outcome: "refused", refused });
      await expect(deadLetters.replay(probeEnv, app, reader, id, { reason: "r" })).rejects.toMatchObject(refused);
      expect(await lettersAbout(name)).toMatchObject([{ id, state: "open" }]);
      expect(await outboxAbout(name)).toEqual([]);
    },
  );

  it("an event that is replayed although its key was used in the meantime becomes a new dead letter", async () => {
    const { name, second, id } = await reused();
    await rows("UPDATE millrace_dead_letters SET state = 'replayed' WHERE id = ?1", id);
    expect(await deliver("probe-events", [{ ...second, replay: "an-action" }])).toEqual({ acked: 1, retried: 0 });
    const letters = await lettersAbout(name);
    expect(letters.map(({ state }) => state).toSorted()).toEqual(["open", "replayed"]);
  });

  it("a dead letter is replayed when the code of its route has thrown the error about a reused key itself", async () => {
    const name = fresh("another");
    const throws = call(
      () => {
        throw new MillraceError("idempotency_key_reused", "Another key.");
      },
      { after: "commit" },
    );
    await routed(on(ProbeDone, start(countDone), throws))([event("probe.done", name, { name, step: "s" })]);
    const [letter] = await lettersAbout(name);
    expect(letter).toMatchObject({ reason: "idempotency_key_reused", error: "Another key." });
    expect(await deadLetters.replay(probeEnv, app, reader, letter?.id ?? "", { reason: "r" })).toMatchObject({ sent: true });
  });
});
