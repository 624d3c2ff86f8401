import { expect, it } from "vitest";
import { decodePayload } from "../../../packages/millrace/src/contract/message.ts";
import { shop } from "../examples/consumers.ts";
import { OrderShip } from "../examples/messages.ts";

it("the catalog of docs/authoring.md is valid, and lists the workflow of each command and the targets of each event", () => {
  expect(shop.performer("order.ship").name).toBe("ship-order");
  expect(shop.subscribers("order.shipped").targets.map((target) => target.do)).toEqual(["start", "call", "call"]);
  expect(shop.consumers.map(({ queue }) => queue.name)).toEqual(["order-commands", "order-events"]);
});

it("the command of docs/authoring.md accepts payloads of version 1, and keeps their key", () => {
  const payload = decodePayload(OrderShip, 1, { order_id: "4711", email: "ada@example.com", parcel: "box" });
  expect(OrderShip.from(payload)).toMatchObject({ version: 2, key: "4711", payload: { parcels: ["box"] } });
});
