import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import document from "../../../docs/alerts.md?raw";
import { raiseAlerts } from "../../../packages/millrace/src/alerts/raise.ts";
import { ALERT_RULES } from "../../../packages/millrace/src/alerts/rules.ts";
import { app } from "../../../src/catalog.ts";
import { callerWith } from "../../api/client.ts";
import { ruleLines } from "../alert-table.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/alerts.md prints the output under it", { timeout: 90_000 }, async () => {
  const { token, get } = await callerWith(["read", "observe", "operate"]);
  const gauges = [{ name: "effects_in_doubt", labels: {}, value: 3 }];
  await env.DB.exec("DELETE FROM millrace_alerts");
  // The keeper may poll at the same time: then the second poll writes.
  for (let look = 0; look < 2; look++) await raiseAlerts(env, { rules: ALERT_RULES, catalog: app, gauges });
  const until = new Date(Date.now() + 86_400_000).toISOString();
  const copied = (body: { items?: { id: string }[] }) => ({ ID: body?.items?.[0]?.id });
  expect(await followDocument(document, { given: { TOKEN: token, UNTIL: until }, copied })).toBe(3);
  const { body } = await get("/v1/audit");
  expect(body.items.map(({ verb }: { verb: string }) => verb)).toEqual(["unmute", "mute"]);
});

it("docs/alerts.md has the current table of rules", () => {
  const lines = document.split("\n").map((line) => line.replaceAll(/ +/g, " "));
  expect(ruleLines().filter((line) => !lines.includes(line))).toEqual([]);
});
