import { expect, it, onTestFinished } from "vitest";
import { closeBooks } from "../../docs/examples/lock.ts";
import { fresh, rows } from "../harness.ts";
import { env } from "./locked.ts";

it("the example of docs/locks.md runs concurrent calls for one shop in sequence, each from the result of the last call", async () => {
  await env.DB.exec("CREATE TABLE books (shop TEXT, cents INTEGER)");
  onTestFinished(async () => void (await env.DB.exec("DROP TABLE books")));
  const shop = fresh("shop");
  const next = async () => (await rows("SELECT 1 FROM books WHERE shop = ?1", shop)).length;
  const closed = await Promise.all([1, 2, 3, 4].map(() => closeBooks(env as unknown as Cloudflare.Env, "acme", shop, next)));
  expect(closed).toEqual([0, 1, 2, 3]);
});
