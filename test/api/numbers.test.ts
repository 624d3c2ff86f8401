import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, fresh } from "./client.ts";

/** JSON numbers that a double cannot represent exactly. */
const ALTERED = [
  "9007199254740992",
  "-9007199254740993",
  "123456789012345678901234567890",
  "9007199254740993.0",
  "12345678901234567.5",
  "9007199254740993e0",
  "1e20",
  "1e-400",
  `0.${"0".repeat(400)}1`,
  `1${"0".repeat(400)}`,
];
const KEPT: [written: string, read: number][] = [
  ["9007199254740991", 9007199254740991],
  ["-9007199254740991", -9007199254740991],
  ["0.1000000000000000055", 0.1],
  ["6.02214076e23", 6.02214076e23],
  ["1.7976931348623157e308", Number.MAX_VALUE],
  ["5e-324", Number.MIN_VALUE],
  ["0e-400", 0],
  ["0.000", 0],
  ["1E2", 100],
];

const fact = (fact_id: string, number: string) =>
  `{"fact_id":"${fact_id}","entity":"${fact_id}","type":"reconciliation","occurred_at":"2026-10-01T09:30:00Z","payload":{"about":"x","list":[0,{"n":${number}}]}}`;

describe("A number", () => {
  it.each(ALTERED)(
    "the number %s, which would be read as another number, is refused, with its place and the form to send",
    async (written) => {
      const caller = await callerWith();
      const reason = `{"reason":"r","output":{"a":"9007199254740993","b":[1, ${written}]}}`;
      const wholes = [
        ["/v1/commands", `{"type":"research.requested","payload":{"brand":"a","keyword":"b","n": ${written} }}`, "payload.n"],
        ["/v1/events", `{"type":"order.delivered","payload":{"n":{"m":${written}}}}`, "payload.n.m"],
        ["/v1/effects/none/confirm", reason, "output.b.1"],
      ] as const;
      for (const [path, body, at] of wholes) {
        const { issues } = expectProblem(await caller.post(path, body), 422, "invalid_payload");
        expect(issues).toMatchObject([{ path: at, message: expect.stringMatching(/send it as text$/) }]);
        expect(JSON.stringify(issues)).not.toContain(`read as ${written}:`);
      }
      const id = fresh("f");
      const { results } = (await caller.post("/v1/facts", `{"facts":[${fact(id, written)},${fact(id, "1")}]}`)).body;
      expect(results).toMatchObject([
        { status: 422, problem: { issues: [{ path: "facts.0.payload.list.1.n", message: expect.stringMatching(/send it as text$/) }] } },
        { status: 201 },
      ]);
    },
  );

  it("a number that is read exactly as written, or as the nearest decimal, is accepted", async () => {
    const caller = await callerWith();
    const id = fresh("f");
    const body = `{"facts":[${KEPT.map(([written], index) => fact(`${id}-${index}`, written)).join(" , ")}]}`;
    const { results } = (await caller.post("/v1/facts", body)).body;
    expect(results.map(({ status }: { status: number }) => status)).toEqual(KEPT.map(() => 201));
    for (const [index, [, read]] of KEPT.entries()) {
      const { items } = (await caller.get(`/v1/ledgers/${id}-${index}?after=0`)).body;
      expect(items[0].payload.list[1].n).toBe(read);
    }
  });

  it("a number in invalid JSON gets a JSON error", async () => {
    const caller = await callerWith();
    for (const body of ['{"a":9007199254740993', '{"a":9007199254740993..1}', '{"a":0009007199254740993}'])
      expectProblem(await caller.post("/v1/commands", body), 400, "invalid_json");
  });
});
