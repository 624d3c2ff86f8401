import { describe, expect, it } from "vitest";
import { BATCH_SIZE, type Delivery, type Entry, type Freed, type LaneName, type Letter, RETRIES, type Turn } from "./entries.ts";
import { judge } from "./judge.ts";

/** Marks the kill of a process. */
const KILL: Entry = { is: "kill", what: "runtime" };

/** The lines about one key of a lane. */
function of(lane: LaneName) {
  const about = (n: number) => ({ lane, key: "k", n, id: `id-${n}` });
  const deliver = (did: Delivery["did"], n: number, life: string, call = `${life} once`): Delivery => ({
    ...about(n),
    is: "delivery",
    life,
    call,
    attempts: 1,
    fails: 0,
    did,
    beside: false,
  });
  return {
    accepted: (...numbers: number[]): Entry[] => numbers.map((n) => ({ ...about(n), is: "accepted", duplicate: false })),
    done: (n: number, life = "a", call?: string) => deliver("done", n, life, call),
    refused: (n: number, life = "a") => deliver("refused", n, life),
    letter: (n: number, reason: Letter["reason"] = "exhausted", life = "a"): Letter => ({
      ...about(n),
      is: "letter",
      life,
      reason,
      taken: true,
    }),
    freed: (n: number, how: Freed["how"]): Freed => ({ is: "freed", lane, key: "k", n, how }),
  };
}

const times = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));
const exhausting = RETRIES.limit + 1;

describe("the judge of lanes finds no error in", () => {
  const { accepted, done, refused, letter, freed } = of("parking");

  it("messages processed in order, and a killed process's messages processed again, are no error", () => {
    const verdict = judge([...accepted(1, 2, 3), done(1), done(2), KILL, done(1, "b"), done(2, "b"), done(3, "b")]);
    expect(verdict).toMatchObject({ problems: [], messages: 3, kills: 1, lives: 2, duplicates: 2, most_duplicates: 2 });
  });

  it("lines of a killed process that arrive after the first lines of the next process are no error", () => {
    expect(judge([...accepted(1, 2, 3), done(1), KILL, done(2, "b"), done(2), done(3, "b")]).problems).toEqual([]);
  });

  it("a head dropped after its retries, and a dead letter that a killed process hands over again, are no error", () => {
    const given = times(exhausting, () => refused(1));
    const before = [...accepted(1, 2, 3), ...given, done(2), done(3), letter(1)];
    const verdict = judge([...before, KILL, letter(1, "exhausted", "b"), done(2, "b"), done(3, "b")]);
    expect(verdict).toMatchObject({ problems: [], letters: 1, duplicate_letters: 1, given_up_by_kills: 0 });
  });

  it("a head whose retries were all used up by killed processes is no error", () => {
    const lives = ["b", "c", "d"].flatMap((life) => [KILL, done(1, life)]);
    expect(judge([...accepted(1, 2), done(1), ...lives, done(2, "d"), letter(1, "exhausted", "d")])).toMatchObject({
      problems: [],
      given_up_by_kills: 1,
    });
  });

  it("a lane that is blocked until an operator resumes it, and then skips its head, is no error", () => {
    const held = of("holding");
    const tries = times(exhausting, () => held.refused(1));
    const steered = [freed(1, "resume"), ...tries, freed(1, "skip")].map((one) => ({ ...one, lane: "holding" as const }));
    expect(judge([...held.accepted(1, 2), ...tries, ...steered, held.done(2), held.letter(1, "skipped")]).problems).toEqual([]);
  });

  it("a head that blocks its lane while it fails is no error", () => {
    const block = of("blocking");
    expect(judge([...block.accepted(1, 2), ...times(9, () => block.refused(1)), block.done(1), block.done(2)]).problems).toEqual([]);
  });
});

describe("the judge of lanes reports", () => {
  const { accepted, done, refused, letter } = of("parking");
  const block = of("blocking");
  const held = of("holding");
  const finds = (entries: Entry[], what: string) => expect(judge(entries).problems.join("\n")).toContain(what);

  it("a lost message is reported", () => finds([...accepted(1, 2), done(1)], "2 is lost"));
  it("a message without a sender is reported", () => finds([done(1)], "message 1 was handled, but never sent"));
  it("a message that passes another message is reported", () => finds([...accepted(1, 2), done(2), done(1)], "message 2 passed message 1"));
  it("a message that passes a blocking head is reported", () =>
    finds([...block.accepted(1, 2), ...times(9, () => block.refused(1)), block.done(2), block.done(1)], "message 2 passed message 1"));
  it("a message that passes a head with remaining retries is reported", () =>
    finds([...accepted(1, 2), refused(1), done(2), done(1)], "message 2 passed message 1"));
  it("a message that passes a head which no operator has skipped is reported", () =>
    finds([...held.accepted(1, 2), ...times(exhausting, () => held.refused(1)), held.done(2)], "message 2 passed message 1"));
  it("a message that comes after a later message is reported", () =>
    finds([...accepted(1, 2), done(1), done(2), done(1)], "message 1 came after message 2"));
  it("a message that one process handles twice is reported", () =>
    finds([...accepted(1), done(1), done(1)], "message 1 was done twice by one process"));
  it("a message that a process repeats twice is reported", () =>
    finds([...accepted(1), done(1), KILL, done(1, "b"), done(1, "b")], "1 was done twice by one process"));
  it("more repeated messages than a batch are reported", () => {
    const numbers = times(BATCH_SIZE + 1, (at) => at + 1);
    const repeated = [...numbers.map((n) => done(n)), KILL, ...numbers.map((n) => done(n, "b"))];
    finds([...accepted(...numbers), ...repeated], "more than a batch");
  });
  it("a removed message that is delivered again is reported", () =>
    finds(
      [...accepted(1, 2), done(1), done(2, "a", "a twice"), KILL, done(1, "b")],
      "message 1 was done again, after it had been removed",
    ));
  it("two messages with one idempotency key are reported", () =>
    finds([...accepted(1), { ...done(1), id: "another" }], "message 1 is two messages"));
  it("two concurrent calls of a handler are reported", () =>
    finds([...accepted(1), { ...done(1), beside: true }], "message 1 was handled while another one was being handled"));
  it("a head that is dropped before its last retry is reported", () =>
    finds([...accepted(1), refused(1), letter(1)], "dropped after 1 failures"));
  it("a head that is retried beyond its limit in a lane that parks is reported", () =>
    finds([...accepted(1), ...times(exhausting + 2, () => refused(1)), letter(1)], "was retried after 4 failures"));
  it("a lane that does not block when it should is reported", () =>
    finds([...held.accepted(1), ...times(9, () => held.refused(1)), held.done(1)], "was retried after 4 failures"));
  it("a dead letter of a lane that blocks is reported", () =>
    finds([...block.accepted(1), block.refused(1), block.letter(1)], "that blocks"));
  it("a dead letter that one process hands over twice is reported", () =>
    finds([...accepted(1), ...times(exhausting, () => refused(1)), letter(1), letter(1)], "came again"));
  it("a number of processes above the number of kills is reported", () =>
    finds([...accepted(1), done(1), done(1, "b")], "2 processes handled messages, with 0 kills"));
});

describe("the judge of lanes in front of a workflow", () => {
  const turn = (n: number, at: Turn["at"]): Entry => ({ is: "turn", key: "k", n, at });
  const asked = [turn(1, "asked"), turn(2, "asked")];
  const whole = [1, 2].flatMap((n) => [turn(n, "begins"), turn(n, "ends")]);

  it("consecutive instances, and an instance that reports again after a kill, are no error", () => {
    const told = [...asked, turn(1, "begins"), KILL, ...whole];
    expect(judge(told)).toMatchObject({ problems: [], turns: 2, turn_kills: 1, turn_repeats: 1 });
  });

  it("an instance that starts before the previous one ends, and one that continues after the next has started, are reported", () => {
    const told = [...asked, turn(1, "begins"), turn(2, "begins"), turn(1, "ends"), turn(2, "ends")];
    expect(judge(told).problems).toEqual(["instances of k: 2 begins before 1 ends", "instances of k: 1 ends after 2"]);
  });

  it("an instance that passes another, and a lost instance, are reported", () => {
    const told = [...asked, turn(2, "begins"), turn(2, "ends")];
    expect(judge(told).problems).toEqual(["instances of k: 2 begins before 1 ends", "instances of k: 1 is lost"]);
  });
});
