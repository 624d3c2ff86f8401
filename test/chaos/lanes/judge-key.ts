import type { OnFailure } from "../../../packages/millrace/src/lanes/definition.ts";
import { type Accepted, BATCH_SIZE, type Delivery, type Freed, LANES, type Letter, RETRIES } from "./entries.ts";

type OfKey = Accepted | Delivery | Letter | Freed;

/** The known state of one message while the ledger is read. Processes are named by their rank. */
interface Known {
  id: string | undefined;
  accepted: boolean;
  /** The process of the message's last success. */
  doneIn: number | undefined;
  /** True once the handler was called again after the message's success: the lane had removed the message before. */
  isRemoved: boolean;
  failures: number;
  /** Failures since an operator released the message. */
  failuresInARow: number;
  /** The process that was running when the message became the head. */
  headSince: number;
  /** The running process at the last release by an operator. */
  freedIn: number;
  isSkipped: boolean;
  /** The last process that handed over the message's dead letter. */
  laidIn: number | undefined;
  letters: number;
}

/** Checks one key of a lane by the ledger's lines about it. */
export class KeyJudge {
  readonly problems: string[] = [];
  /** By process: successes of earlier processes that it repeated. */
  readonly repeats: number[];
  readonly #name: string;
  readonly #policy: OnFailure;
  readonly #lives: readonly string[];
  readonly #known = new Map<number, Known>();
  #head = 1;
  /** The process of the current lines. */
  #now = 0;
  #last: Delivery | undefined;
  /** Successes of the handler's last call. */
  #inCall: Known[] = [];

  constructor(name: string, told: readonly OfKey[], lives: readonly string[]) {
    this.#name = name;
    this.#policy = LANES[told[0]?.lane ?? "blocking"];
    this.#lives = lives;
    this.repeats = lives.map(() => 0);
    for (const one of inOrderOfLives(told, lives)) {
      if (one.is === "delivery") this.#deliver(one);
      else if (one.is === "letter") this.#lay(one);
      else if (one.is === "freed") this.#free(one);
      else this.#about(one.n, one.id).accepted = true;
    }
    this.#end();
  }

  get messages(): number {
    return this.#count(({ accepted }) => accepted);
  }

  get letters(): number {
    return this.#count(({ letters }) => letters > 0);
  }

  get duplicateLetters(): number {
    return this.#all.reduce((sum, { letters }) => sum + Math.max(0, letters - 1), 0);
  }

  get givenUpByKills(): number {
    return this.#count(({ letters, failures, isSkipped }) => letters > 0 && !isSkipped && failures <= RETRIES.limit);
  }

  #deliver(delivery: Delivery): void {
    const { n, id, life, call, did, beside } = delivery;
    const one = this.#about(n, id);
    const before = this.#now;
    this.#now = this.#lives.indexOf(life);
    if (beside) this.#wrong(`message ${n} was handled while another one was being handled`);
    for (; this.#head < n; this.#head++) {
      if (!this.#isOver(this.#about(this.#head)))
        this.#wrong(`message ${n} passed message ${this.#head}, which was neither done nor dropped`);
      this.#about(this.#head + 1).headSince = before;
    }
    if (this.#last?.life === life && n < this.#last.n) this.#wrong(`message ${n} came after message ${this.#last.n}`);
    if (this.#last?.call !== call) this.#begin(life);
    this.#last = delivery;
    if (did === "done") this.#succeed(n, one);
    else this.#fail(n, one);
  }

  /**
   * A call begins in the process of the last call: messages processed there have been removed. Messages of a killed process may not have
   * been.
   */
  #begin(life: string): void {
    if (this.#last?.life === life) for (const one of this.#inCall) one.isRemoved = true;
    this.#inCall = [];
  }

  #succeed(n: number, one: Known): void {
    this.#inCall.push(one);
    if (one.isRemoved) this.#wrong(`message ${n} was done again, after it had been removed`);
    if (one.doneIn === this.#now) this.#wrong(`message ${n} was done twice by one process`);
    else if (one.doneIn !== undefined) this.repeats[this.#now] = (this.repeats[this.#now] ?? 0) + 1;
    one.doneIn = this.#now;
  }

  #fail(n: number, one: Known): void {
    if (n < this.#head && one.doneIn === undefined)
      this.#wrong(`message ${n} came again after message ${this.#head}, although it had been dropped`);
    one.failures++;
    one.failuresInARow++;
    // One more attempt is allowed if the message failed in a batch without a faulty message.
    const most = RETRIES.limit + 2 + (this.#now - Math.max(one.freedIn, one.headSince));
    if (this.#policy !== "block" && one.failuresInARow > most) this.#wrong(`message ${n} was retried after ${most} failures`);
  }

  #lay({ n, id, life, reason, taken }: Letter): void {
    const one = this.#about(n, id);
    this.#now = Math.max(this.#now, this.#lives.indexOf(life));
    if (this.#policy === "block") this.#wrong(`message ${n} became a dead letter of a lane that blocks`);
    if (this.#policy === "park" && (reason !== "exhausted" || !this.#mayBeGivenUp(one)))
      this.#wrong(`message ${n} was dropped after ${one.failures} failures`);
    if (this.#policy === "hold" && !one.isSkipped) this.#wrong(`message ${n} was dropped, and no operator had skipped it`);
    if (!taken) return;
    if (one.laidIn === this.#now) this.#wrong(`the dead letter of message ${n} came again to the process that had handed it over`);
    one.laidIn = this.#now;
    one.letters++;
  }

  #free({ n, how }: Freed): void {
    const one = this.#about(n);
    one.failuresInARow = 0;
    one.freedIn = this.#now;
    one.isSkipped ||= how === "skip";
  }

  #end(): void {
    for (const [n, { accepted, doneIn, letters }] of this.#known) {
      if (!accepted) this.#wrong(`message ${n} was handled, but never sent`);
      if (doneIn === undefined && letters === 0) this.#wrong(`message ${n} is lost: neither done nor a dead letter`);
    }
    for (const [life, count] of this.repeats.entries())
      if (count > BATCH_SIZE) this.#wrong(`process ${life + 1} repeated ${count} successes: more than a batch`);
  }

  #isOver(one: Known): boolean {
    if (one.doneIn !== undefined) return true;
    return this.#policy === "park" ? this.#mayBeGivenUp(one) : one.isSkipped;
  }

  /** A process that was killed during a delivery may have used an unrecorded attempt of its head. */
  #mayBeGivenUp({ failures, headSince }: Known): boolean {
    return failures + (this.#now - headSince) > RETRIES.limit;
  }

  #about(n: number, id?: string): Known {
    const one = this.#known.get(n) ?? {
      id,
      accepted: false,
      doneIn: undefined,
      isRemoved: false,
      failures: 0,
      failuresInARow: 0,
      headSince: this.#now,
      freedIn: this.#now,
      isSkipped: false,
      laidIn: undefined,
      letters: 0,
    };
    this.#known.set(n, one);
    one.id ??= id;
    if (id !== undefined && one.id !== id) this.#wrong(`message ${n} is two messages, ${one.id} and ${id}`);
    return one;
  }

  get #all(): Known[] {
    return [...this.#known.values()];
  }

  #count(which: (one: Known) => boolean): number {
    return this.#all.filter(which).length;
  }

  #wrong(what: string): void {
    this.problems.push(`${this.#name}: ${what}`);
  }
}

/** Lines of a killed process may arrive after the first lines of its successor. */
function inOrderOfLives(told: readonly OfKey[], lives: readonly string[]): OfKey[] {
  let latest = 0;
  const ranked = told.map((one) => {
    if (!("life" in one)) return { one, life: latest };
    const life = lives.indexOf(one.life);
    latest = Math.max(latest, life);
    return { one, life };
  });
  return ranked.sort((a, b) => a.life - b.life).map(({ one }) => one);
}
