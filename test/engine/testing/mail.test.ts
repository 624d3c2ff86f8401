import { env } from "cloudflare:workers";
import { type EngineEnv, enqueueOne } from "millrace";
import { recordingUpstream, untilEnded } from "millrace/testing";
import { expect, it } from "vitest";
import { DigestMail } from "../../docs/examples/digest.ts";
import { app } from "../../probe/worker.ts";

const engine = env as unknown as EngineEnv;
const by = { tenantId: "acme", source: "test" };
const payload = { issue: crypto.randomUUID(), reader: "ada", email: "ada@example.com" };

it("a mail with a lost answer is in doubt, and is not sent again", async () => {
  using upstream = recordingUpstream();
  upstream.next({ does: "lose", url: "mail.example.com" });
  const { instanceId } = await enqueueOne(engine, app, by, { command: DigestMail, payload });
  expect(await untilEnded(engine, instanceId)).toMatchObject({ status: "in_doubt" });
  expect(upstream.effects({ instanceId })).toMatchObject([{ method: "POST", url: "https://mail.example.com/send" }]);
});
