import { lanes } from "millrace/operate";
import { expect, it, onTestFinished, vi } from "vitest";
import { holding, parking } from "../../probe/lanes.ts";
import { until } from "../harness.ts";
import { LabLane, laneEnv } from "./lab.ts";

it.each([
  ["holds", holding],
  ["parks", parking],
])("a lane that %s a message after its last retry logs ids of the message and the object, but no key and no body", async (_, kind) => {
  const warn = vi.spyOn(console, "warn");
  onTestFinished(() => warn.mockRestore());
  const lane = new LabLane(kind, ({ messages }) => messages[0]?.retry());
  const [{ id } = { id: "" }] = await lane.send(0);
  const line = async () => warn.mock.calls.map(([text]) => String(text)).find((text) => text.includes(id));
  const said = (await until(line, (text) => text !== undefined)) ?? "{}";
  const { log, object } = JSON.parse(said);
  expect(log).toBe("lane_gave_up");
  expect(said).not.toContain(lane.key);
  expect(await lanes.objectOf(laneEnv, { object }).look()).toMatchObject({ lane: kind.name, tenant: null, key: lane.key });
});
