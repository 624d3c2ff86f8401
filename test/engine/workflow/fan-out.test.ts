import { env } from "cloudflare:workers";
import { expect, it, onTestFinished } from "vitest";
import { howMany } from "../../full-size.ts";
import { lab } from "../../probe/lab.ts";
import { outputOf, runLab } from "../lab.ts";
import { countRows } from "../observe/cost/counted.ts";
import { childrenOf, labCode } from "./children.ts";

it("the start, the end and the result of one of many children cost at most 18 written rows and 3 round trips to D1", async () => {
  const children = howMany(40, 400);
  const child = labCode(async ({ payload }) => payload.note);
  const proto = Object.getPrototypeOf(env.DB) as D1Database;
  const own = proto.batch;
  let trips = 0;
  proto.batch = function batch(this: D1Database, ...given: Parameters<typeof own>) {
    trips++;
    return own.apply(this, given);
  } as typeof own;
  onTestFinished(() => {
    proto.batch = own;
  });
  const rows = countRows();
  const { instanceId } = await runLab(({ step }) =>
    Promise.all(
      Array.from({ length: children }, (_, nth) => step.child("one", lab, { name: child, note: String(nth) }, { key: String(nth) })),
    ),
  );
  const results = (await outputOf(instanceId)) as string[];
  expect(results).toEqual(Array.from({ length: children }, (_, nth) => String(nth)));
  const ids = (await childrenOf(instanceId)).map(({ id }) => id);
  const perChild = rows.written(instanceId, ...ids) / children;
  console.log(
    `${children} children: ${perChild.toFixed(1)} written rows and ${(trips / children).toFixed(2)} round trips to D1 for each child`,
  );
  expect(perChild).toBeLessThanOrEqual(18);
  expect(trips / children).toBeLessThanOrEqual(3);
});
