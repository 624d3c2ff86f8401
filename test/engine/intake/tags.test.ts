import { env } from "cloudflare:workers";
import { notRetryable } from "millrace";
import { erasure, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import type { LabCall } from "../../probe/lab.ts";
import { asking } from "../asking.ts";
import { ask } from "../callbacks/heard.ts";
import { dieAt, fresh, probeEnv, reaches, retentionPass, rows, until, withKeeperAtRest } from "../harness.ts";
import { countRows } from "../observe/cost/counted.ts";

const nothing = async () => null;

const tagsOf = (id: string) =>
  rows<{ tag: string }>("SELECT tag FROM millrace_tags WHERE instance_id = ?1 ORDER BY tag", id).then((found) =>
    found.map(({ tag }) => tag),
  );

it("an instance has the tags of its request and of its payload, each once, and a repeat of the command changes none", async () => {
  const caller = await asking();
  const name = fresh("lab");
  const send = (tags: string[]) => caller.post("/v1/commands", { type: "lab.requested", payload: { name, note: "vip" }, tags });
  const { body: first } = await send(["customer:acme", "customer:acme"]);
  const { body: again } = await send(["customer:other"]);
  expect([again.instance_id, again.replayed]).toEqual([first.instance_id, true]);
  expect((await caller.get(`/v1/instances/${first.instance_id}`)).body.tags).toEqual(["customer:acme", "note:vip"]);
  expect(await tagsOf(first.instance_id)).toEqual(["customer:acme", "note:vip"]);
});

it("a list of a tag contains its instances, newest first, page by page, within the other filters and without another tenant's", async () => {
  const [caller, other] = [await asking(), await asking()];
  const ids: string[] = [];
  for (const tags of [["a"], ["a", "b"], [], ["b"], ["a"]]) ids.push(await ask(caller, nothing, { ...(tags.length > 0 && { tags }) }));
  await ask(other, nothing, { tags: ["a"] });
  for (const id of ids) await reaches(id, "complete");
  const [one, two, , four, five] = ids;
  const listed = async (query: string) => (await caller.get(`/v1/instances?${query}`)).body.items.map(({ id }: { id: string }) => id);
  expect(await listed("tag=a")).toEqual([five, two, one]);
  expect(await listed("tag=b&status=complete&workflow=lab")).toEqual([four, two]);
  expect(await listed("tag=b&status=errored")).toEqual([]);
  const { body } = await caller.get("/v1/instances?tag=a&limit=2");
  expect(await listed(`tag=a&limit=2&cursor=${body.next_cursor}`)).toEqual([one]);
});

it("a bulk action of a tag selects the instances with that tag, within its times and the other filters", async () => {
  const caller = await asking();
  const [id, other] = [await ask(caller, nothing, { tags: ["a"] }), await ask(caller, nothing, { tags: ["b"] })];
  await ask(await asking(), nothing, { tags: ["a"] });
  for (const one of [id, other]) await reaches(one, "complete");
  const { accepted_at, correlation_id } = (await caller.get(`/v1/instances/${id}`)).body;
  const selected = async (filter: object) => {
    const asked = { verb: "run_again", filter: { status: "complete", tag: "a", ...filter }, reason: "look", dry_run: true };
    return (await caller.post("/v1/bulk-actions", asked)).body.sample.map((one: { id: string }) => one.id);
  };
  expect(await selected({})).toEqual([id]);
  expect(await selected({ workflow: "lab", since: accepted_at, correlation: correlation_id })).toEqual([id]);
  for (const none of [{ until: accepted_at }, { subject: "another" }, { status: "errored" }]) expect(await selected(none)).toEqual([]);
});

it("tags beyond ten, of more than 64 characters, or with characters that are not visible are refused", async () => {
  const caller = await asking();
  const send = (tags: unknown[]) => caller.post("/v1/commands", { type: "lab.requested", payload: { name: fresh("lab") }, tags });
  for (const tags of [Array.from({ length: 11 }, String), ["x".repeat(65)], [""], [" "], ["a\u200bb"], ["a\nb"], ["\ud800"], [1]]) {
    expect((await send(tags)).body, JSON.stringify(tags)).toMatchObject({ code: "invalid_payload" });
  }
  expect((await send(["kunde:größe 10 🎉"])).status).toBe(202);
});

it("an instance without tags writes no row for them; with tags one row each, which its cost shows", async () => {
  const caller = await asking();
  const { of } = countRows();
  const inserts = /INSERT INTO millrace_instances/;
  await ask(caller, nothing);
  const without = of(inserts);
  const id = await ask(caller, nothing, { tags: ["a", "b"] });
  expect(of(inserts) - 2 * without).toBe(2);
  await reaches(id, "complete");
  const { cost } = await instances.describe(probeEnv, { tenantId: caller.tenantId, actor: "tess" }, id);
  expect([cost.removal_rows, cost.parts.rows_written]).toMatchObject([4, { amount: 8, mark: "counted" }]);
});

it("retention removes the tags with their instance", async () => {
  await withKeeperAtRest();
  const caller = await asking();
  const id = await ask(caller, nothing, { tags: ["customer:acme"] });
  await reaches(id, "complete");
  await env.DB.prepare("UPDATE millrace_instances SET accepted_at = 1, updated_at = 1 WHERE id = ?1").bind(id).run();
  expect(await rows("SELECT accepted_at FROM millrace_tags WHERE instance_id = ?1", id)).toEqual([{ accepted_at: 1 }]);
  await retentionPass();
  expect(await rows("SELECT id FROM millrace_instances WHERE id = ?1", id)).toEqual([]);
  expect(await tagsOf(id)).toEqual([]);
});

it("an erasure replaces a person in the tags of an instance", async () => {
  const caller = await asking();
  const id = await ask(caller, nothing, { tags: ["customer:ada@example.com", "vip"] });
  await reaches(id, "complete");
  const by = { mentions: ["ada@example.com"], rewrite: (_: string, text: string) => text.replaceAll("ada@example.com", "forgotten-1") };
  const table = erasure.texts.find((one) => one.table === "millrace_instances") as (typeof erasure.texts)[number];
  await erasure.rewriteRows(probeEnv, { tenantId: caller.tenantId, table, by, from: null, apply: true });
  expect(await tagsOf(id)).toEqual(["customer:forgotten-1", "vip"]);
  expect((await caller.get("/v1/instances?tag=customer:forgotten-1")).body.items).toMatchObject([{ id }]);
  expect((await caller.get(`/v1/instances?tag=${encodeURIComponent("customer:ada@example.com")}`)).body.items).toEqual([]);
});

it("a bulk action selects by a tag", async () => {
  const caller = await asking();
  const [meant] = [await ask(caller, nothing, { tags: ["a"] }), await ask(caller, nothing, { tags: ["b"] })];
  const fails = () => Promise.reject(new Error("No."));
  const failed = await ask(caller, fails, { tags: ["a"] });
  await ask(caller, fails, { tags: ["b"] });
  await reaches(meant, "complete");
  await reaches(failed, "errored");
  const { body } = await caller.post("/v1/bulk-actions", { verb: "retry", filter: { tag: "a" }, reason: "fixed", dry_run: true });
  expect(body).toMatchObject({ matched: 1, sample: [{ id: failed }] });
});

describe.each(["platform", "inline"] as const)("Tags that the code adds, with steps in the mode %s,", (steps) => {
  it("are written with the next record, without a write of their own, and a replay adds none", async () => {
    const caller = await asking();
    const { of } = countRows();
    const tagged = /json_set\(envelope, '\$\.tags'/;
    const id = await ask(
      caller,
      async ({ step }) => {
        step.tag("order:7", "given");
        await step.commit("first", () => ({}), { steps });
        await step.commit("second", () => ({ output: step.tag("late") }), { steps });
        await step.sleep("nap", 10);
        step.tag("order:7");
        await step.commit("third", () => ({}), { steps });
      },
      { tags: ["given"] },
    );
    expect(await reaches(id, "complete")).toBe("complete");
    expect((await caller.get(`/v1/instances/${id}`)).body.tags).toEqual(["given", "order:7", "late"]);
    expect(await tagsOf(id)).toEqual(["given", "late", "order:7"]);
    // Each of the two records with new tags writes the row of the instance and a row per new tag.
    expect(of(tagged)).toBe(4);
    const listed = async (by: typeof caller) => (await by.get("/v1/instances?tag=order:7")).body.items.map((one: { id: string }) => one.id);
    expect(await listed(caller)).toEqual([id]);
    expect(await listed(await asking())).toEqual([]);
  });

  it("are stored with the end of a run, also of one that fails, while a run sleeps, and by a read", async () => {
    const caller = await asking();
    const shown = async (id: string) => (await caller.get(`/v1/instances/${id}`)).body.tags;
    const ended = await ask(caller, async ({ step }) => {
      await step.commit("work", () => ({}), { steps });
      step.tag("ended");
    });
    expect(await reaches(ended, "complete")).toBe("complete");
    expect(await shown(ended)).toEqual(["ended"]);
    const failed = await ask(caller, async ({ step }) => {
      step.tag("failed");
      throw new Error("no");
    });
    expect(await reaches(failed, "errored")).toBe("errored");
    expect(await shown(failed)).toEqual(["failed"]);
    const asleep = await ask(caller, async ({ step }) => {
      step.tag("asleep");
      await step.sleep("long", "1 day");
    });
    const tags = await until<string[]>(
      () => shown(asleep),
      (stored) => stored.length > 0,
    );
    expect(tags).toEqual(["asleep"]);
    const read = await ask(caller, async ({ step }) => {
      await step.read("look", async () => step.tag("read"));
      await step.sleep("nap", 10);
    });
    expect(await reaches(read, "complete")).toBe("complete");
    expect(await shown(read)).toEqual(["read"]);
  });

  it("are stored once if the process dies around the record, and stay after a retry and an undo", async () => {
    for (const point of ["W06 about to record", "W05 recorded, step result lost"] as const) {
      const caller = await asking();
      const state = { broken: true };
      const code = async ({ step }: LabCall) => {
        step.tag("a", "b");
        await step.commit("work", () => ({}), { steps, undo: () => ({}) });
        await step.commit("fails", () => {
          if (state.broken) throw notRetryable("broken");
          return {};
        });
      };
      const id = await ask(caller, code, { delay_seconds: 3600 });
      dieAt(point, id);
      await caller.post(`/v1/instances/${id}/release`, { reason: "now" });
      expect(await reaches(id, "errored")).toBe("errored");
      state.broken = false;
      await caller.post(`/v1/instances/${id}/retry`, { reason: "fixed" });
      expect(await reaches(id, "complete")).toBe("complete");
      await caller.post(`/v1/instances/${id}/undo`, { reason: "called off" });
      expect(await reaches(id, "terminated")).toBe("terminated");
      expect(await tagsOf(id), point).toEqual(["a", "b"]);
    }
  });
});

it("more than ten tags of an instance, and an invalid tag, fail the run with the reason", async () => {
  const caller = await asking();
  for (const tags of [Array.from({ length: 10 }, (_, n) => `${n}`), ["a\nb"], ["x".repeat(65)]]) {
    const id = await ask(caller, async ({ step }) => step.tag(...tags), { tags: ["given"] });
    expect(await reaches(id, "errored", "complete"), JSON.stringify(tags)).toBe("errored");
    const { error, tags: stored } = (await caller.get(`/v1/instances/${id}`)).body;
    expect([error.code, stored]).toEqual(["config_invalid", ["given"]]);
  }
});
