import { on, send } from "millrace";
import { planReplay, replayDeadLetter } from "millrace/operate";
import { catalog } from "millrace/worker";
import { expect, it } from "vitest";
import { routesOf, startsOf } from "../../probe/consumers.ts";
import { ProbeFollow, ProbeRouted } from "../../probe/messages.ts";
import { followProbe } from "../../probe/workflows.ts";
import { event, fresh, probeEnv } from "../harness.ts";
import { lettersAbout, outboxAbout, reader } from "../intake/letter.ts";
import { routed } from "../intake/routed.ts";

it("the replay of an event that its route cannot process is refused, also as a dry run, until the route is fixed", async () => {
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

  expect(await planReplay(probeEnv, app(wrong), reader, id, undefined)).toMatchObject({
    outcome: "refused",
    why: expect.stringContaining("cannot send probe.follow"),
    refused: { code: "invalid_payload", detail: { issues: [{ path: expect.stringContaining("step") }] } },
  });
  await expect(replayDeadLetter(probeEnv, app(wrong), reader, id, { reason: "r" })).rejects.toMatchObject({ code: "invalid_payload" });
  expect(await lettersAbout(name)).toMatchObject([{ id, state: "open" }]);
  expect(await outboxAbout(name)).toEqual([]);

  expect(await planReplay(probeEnv, app(right), reader, id, undefined)).toMatchObject({ outcome: "follows", refused: null });
  expect(await replayDeadLetter(probeEnv, app(right), reader, id, { reason: "r" })).toMatchObject({ sent: true });
});
