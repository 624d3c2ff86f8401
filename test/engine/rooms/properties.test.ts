import fc from "fast-check";
import { expect, it } from "vitest";
import type { RoomMessage } from "../../../packages/millrace/src/rooms/history.ts";
import { howMany } from "../../full-size.ts";
import { hall } from "../../probe/rooms.ts";
import { until } from "../../until.ts";
import { type Ear, LabRoom } from "./lab.ts";

const NAMES = ["ada", "bob", "cyd"] as const;
const HISTORY = 50;

type Act =
  | { do: "join"; name: (typeof NAMES)[number]; again: boolean }
  | { do: "leave"; which: number }
  | { do: "say"; who: number[]; keyed: boolean }
  | { do: "tell"; count: number }
  | { do: "crash" };

const acts: fc.Arbitrary<Act[]> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant("join" as const), name: fc.constantFrom(...NAMES), again: fc.boolean() }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("leave" as const), which: fc.nat(9) }) },
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant("say" as const), who: fc.array(fc.nat(9), { maxLength: 5 }), keyed: fc.boolean() }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("tell" as const), count: fc.integer({ min: 1, max: 30 }) }) },
    fc.constant({ do: "crash" as const }),
  ),
  { minLength: 4, maxLength: 16 },
);

/** A connected client, and the number of messages before its join. */
interface Seat {
  name: string;
  ear: Ear;
  from: number;
}

/** A room and its expected state: all messages in order, the sockets of each client, and each client's last message. */
class Hall {
  readonly room = new LabRoom(hall);
  readonly heard = new Map<string, number>();
  seats: Seat[] = [];
  said = 0;
  /** Each message body by its sequence number, from the first client that received it. */
  readonly order = new Map<number, unknown>();

  async join(name: string, since: number | undefined): Promise<void> {
    const ear = await this.room.enterAs(name, since);
    const told = Math.min(HISTORY, this.said - (since ?? 0));
    expect(ear.welcome).toMatchObject({ you: name, sequence: this.said, missed: since !== undefined && this.said - since > HISTORY });
    this.agree(ear.welcome?.messages ?? [], this.said - told);
    expect(ear.welcome?.messages.length).toBe(told);
    this.seats.push({ name, ear, from: this.said });
  }

  async leave(which: number): Promise<void> {
    const [seat] = this.seats.splice(which % this.seats.length, 1);
    seat?.ear.close();
  }

  async say(who: readonly number[], keyed: boolean): Promise<void> {
    for (const [at, each] of who.entries()) {
      const { ear } = this.seats[each % this.seats.length] as Seat;
      const frame = { type: "send", body: `${this.said}.${at}`, ...(keyed && { key: `${this.said}.${at}` }) };
      ear.say(frame);
      // The client sends each keyed message twice, and the room must have it once.
      if (keyed) ear.say(frame);
    }
    this.said += who.length;
  }

  async tell(count: number): Promise<void> {
    for (let n = 0; n < count; n++) await this.room.client.send(`app ${++this.said}`);
  }

  async crash(): Promise<void> {
    await this.room.crash();
    for (const { ear } of this.seats) await ear.isClosed();
    this.seats = [];
  }

  /** Checks that each connected client has all messages since its join, once and in one order, and the list of members. */
  async check(): Promise<void> {
    const here = [...new Set(this.seats.map(({ name }) => name))].toSorted();
    const look = await until(
      () => this.room.object.look(),
      ({ sockets, sequence }) => sockets === this.seats.length && sequence === this.said,
      5000,
    );
    expect(look).toMatchObject({ sockets: this.seats.length, sequence: this.said, present: here.length });
    for (const { name, ear, from } of this.seats) {
      const known = await until(
        async () => ({ present: presentTo(ear), messages: firstHeard(ear) }),
        ({ present, messages }) => present.join() === here.join() && messages.length >= this.said - from,
        5000,
      );
      expect(known.present).toEqual(here);
      this.agree(known.messages, from);
      expect(known.messages.length).toBe(this.said - from);
      this.heard.set(name, this.said);
    }
  }

  /** Checks that sequence numbers have no gap, and that each message equals the one that other clients received. */
  agree(messages: readonly RoomMessage[], after: number): void {
    expect(messages.map(({ sequence }) => sequence)).toEqual(messages.map((_, at) => after + 1 + at));
    for (const { sequence, body } of messages) {
      if (!this.order.has(sequence)) this.order.set(sequence, body);
      expect(this.order.get(sequence)).toBe(body);
    }
  }
}

/** The members according to a client's frames: the list at its join, then the joins and leaves. */
function presentTo(ear: Ear): string[] {
  const present = new Set(ear.welcome?.present.names);
  for (const frame of ear.heard) {
    if (frame.type === "joined") present.add(frame.who);
    if (frame.type === "left") present.delete(frame.who);
  }
  return [...present].toSorted();
}

/** A client's messages without those that it received again because it had sent them twice. */
function firstHeard(ear: Ear): RoomMessage[] {
  const messages = ear.of("message");
  return messages.filter(({ sequence }, at) => messages.findIndex((other) => other.sequence === sequence) === at);
}

it("a room gives all clients one order without gaps, the last fifty messages at a join, and the list of members, for any order of operations and crashes", async () => {
  const property = fc.asyncProperty(acts, async (list) => {
    const hall = new Hall();
    for (const act of list) {
      const isEmpty = hall.seats.length === 0;
      if (act.do === "join") await hall.join(act.name, act.again ? hall.heard.get(act.name) : undefined);
      else if (act.do === "tell") await hall.tell(act.count);
      else if (act.do === "crash") await hall.crash();
      else if (act.do === "leave" && !isEmpty) await hall.leave(act.which);
      else if (act.do === "say" && !isEmpty) await hall.say(act.who, act.keyed);
      await hall.check();
    }
    for (const { ear } of hall.seats) ear.close();
    const texts = [...hall.order.values()];
    expect(new Set(texts).size).toBe(texts.length);
  });
  await fc.assert(property, { numRuns: howMany(15, 400) });
});
