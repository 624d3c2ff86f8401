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

describe("the judge of lanes finds nothing wrong with", () => {
  const { accepted, done, refused, letter, freed } = of("parking");

  it("messages processed in order, and those of a killed process processed again", () => {
    const verdict = judge([...accepted(1, 2, 3), done(1), done(2), KILL, done(1, "b"), done(2, "b"), done(3, "b")]);
    expect(verdict).toMatchObject({ problems: [], messages: 3, kills: 1, lives: 2, duplicates: 2, most_duplicates: 2 });
  });

  it("lines of a dead process that arrive after the first of the next", () => {
    expect(judge([...accepted(1, 2, 3), done(1), KILL, done(2, "b"), done(2), done(3, "b")]).problems).toEqual([]);
  });

  it("a head dropped after its retries, and a dead letter that a killed process hands over again", () => {
    const given = times(exhausting, () => refused(1));
    const before = [...accepted(1, 2, 3), ...given, done(2), done(3), letter(1)];
    const verdict = judge([...before, KILL, letter(1, "exhausted", "b"), done(2, "b"), done(3, "b")]);
    expect(verdict).toMatchObject({ problems: [], letters: 1, duplicate_letters: 1, given_up_by_kills: 0 });
  });

  it("a head that killed processes used all retries of", () => {
    const lives = ["b", "c", "d"].flatMap((life) => [KILL, done(1, life)]);
    expect(judge([...accepted(1, 2), done(1), ...lives, done(2, "d"), letter(1, "exhausted", "d")])).toMatchObject({
      problems: [],
      given_up_by_kills: 1,
    });
  });

  it("a lane that holds until an operator resumes it, and then skips its head", () => {
    const held = of("holding");
    const tries = times(exhausting, () => held.refused(1));
    const steered = [freed(1, "resume"), ...tries, freed(1, "skip")].map((one) => ({ ...one, lane: "holding" as const }));
    expect(judge([...held.accepted(1, 2), ...tries, ...steered, held.done(2), held.letter(1, "skipped")]).problems).toEqual([]);
  });

  it("a head that blocks for as long as it fails", () => {
    const block = of("blocking");
    expect(judge([...block.accepted(1, 2), ...times(9, () => block.refused(1)), block.done(1), block.done(2)]).problems).toEqual([]);
  });
});

describe("the judge of lanes finds", () => {
  const { accepted, done, refused, letter } = of("parking");
  const block = of("blocking");
  const held = of("holding");
  const finds = (entries: Entry[], what: string) => expect(judge(entries).problems.join("\n")).toContain(what);

  it("a message that is lost", () => finds([...accepted(1, 2), done(1)], "2 is lost"));
  it("a message without a sender", () => finds([done(1)], "1 was handled, and nobody had sent it"));
  it("a message that passes another", () => finds([...accepted(1, 2), done(2), done(1)], "2 passed 1"));
  it("a message that passes a head which blocks", () =>
    finds([...block.accepted(1, 2), ...times(9, () => block.refused(1)), block.done(2), block.done(1)], "2 passed 1"));
  it("a message that passes a head which still has retries", () => finds([...accepted(1, 2), refused(1), done(2), done(1)], "2 passed 1"));
  it("a message that passes a head which no person has skipped", () =>
    finds([...held.accepted(1, 2), ...times(exhausting, () => held.refused(1)), held.done(2)], "2 passed 1"));
  it("a message that comes after a later one", () => finds([...accepted(1, 2), done(1), done(2), done(1)], "1 came behind 2"));
  it("a message that one process does twice", () => finds([...accepted(1), done(1), done(1)], "1 was done twice by one process"));
  it("a message that a process repeats twice", () =>
    finds([...accepted(1), done(1), KILL, done(1, "b"), done(1, "b")], "1 was done twice by one process"));
  it("more repeated than a batch", () => {
    const numbers = times(BATCH_SIZE + 1, (at) => at + 1);
    const repeated = [...numbers.map((n) => done(n)), KILL, ...numbers.map((n) => done(n, "b"))];
    finds([...accepted(...numbers), ...repeated], "more than a batch");
  });
  it("a removed message that comes again", () =>
    finds([...accepted(1, 2), done(1), done(2, "a", "a twice"), KILL, done(1, "b")], "1 was done again, after it had been removed"));
  it("two messages of one idempotency key", () => finds([...accepted(1), { ...done(1), id: "another" }], "1 is two messages"));
  it("two calls of a handler at once", () => finds([...accepted(1), { ...done(1), beside: true }], "1 was handled while another one was"));
  it("a head that is dropped too soon", () => finds([...accepted(1), refused(1), letter(1)], "given up after 1 failures"));
  it("a head that is tried on and on in a lane that parks", () =>
    finds([...accepted(1), ...times(exhausting + 2, () => refused(1)), letter(1)], "was tried on"));
  it("a lane that does not hold", () => finds([...held.accepted(1), ...times(9, () => held.refused(1)), held.done(1)], "was tried on"));
  it("a dead letter of a lane that blocks", () => finds([...block.accepted(1), block.refused(1), block.letter(1)], "that blocks"));
  it("a dead letter that is handed over twice by one process", () =>
    finds([...accepted(1), ...times(exhausting, () => refused(1)), letter(1), letter(1)], "came again"));
  it("a process too many", () => finds([...accepted(1), done(1), done(1, "b")], "2 processes handled messages, with 0 kills"));
});

describe("the judge of lanes in front of a workflow", () => {
  const turn = (n: number, at: Turn["at"]): Entry => ({ is: "turn", key: "k", n, at });
  const asked = [turn(1, "asked"), turn(2, "asked")];
  const whole = [1, 2].flatMap((n) => [turn(n, "begins"), turn(n, "ends")]);

  it("finds no error in consecutive runs, and in a run that a kill makes report again", () => {
    const told = [...asked, turn(1, "begins"), KILL, ...whole];
    expect(judge(told)).toMatchObject({ problems: [], turns: 2, turn_kills: 1, turn_repeats: 1 });
  });

  it("finds a run that begins before the end of the previous one, and a run that continues after the next", () => {
    const told = [...asked, turn(1, "begins"), turn(2, "begins"), turn(1, "ends"), turn(2, "ends")];
    expect(judge(told).problems).toEqual(["turns of k: 2 begins before 1 ends", "turns of k: 1 ends behind 2"]);
  });

  it("finds a run that passes another, and one that is lost", () => {
    const told = [...asked, turn(2, "begins"), turn(2, "ends")];
    expect(judge(told).problems).toEqual(["turns of k: 2 begins before 1 ends", "turns of k: 1 is lost"]);
  });
});
