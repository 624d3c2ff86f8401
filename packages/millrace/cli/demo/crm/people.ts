/** Two contacts that are one person each: the first is known as the second. */
const MERGES = [
  [3, 4],
  [11, 12],
] as const;
/** Every so manieth contact has its neighbour's address, which the CRM refuses. */
const DOUBLE_EVERY = 500;
/** Contacts that the CRM puts off once. */
const PUT_OFF = 5;

/** Somebody who works at a company that the CRM refuses. */
const EMPLOYED = { number: 77, company: "Shut Down Ltd" };
/** By which name of ours the CRM knows that company. */
export const REFUSED_COMPANY = "acme/shut down ltd";

/** The people of the story. */
export interface People {
  csv: string;
  all: string[];
  /** Who is known as whom. */
  merged: [from: string, into: string][];
  /** Whom the CRM will refuse. */
  doubles: string[];
  /** Who will be there, but not be connected with their company. */
  unconnected: string[];
  /** Whom the CRM will put off once. */
  putOff: string[];
}

export function idOf(number: number): string {
  return `c${String(number).padStart(7, "0")}`;
}

/** A kill comes when so much of a sync is done. */
export function killAt(kill: number, kills: number): number {
  return (kill + 0.5) / (kills + 1);
}

/**
 * Somebody behind each kill, for whose chunk the CRM asks for patience: so that the sync is under way when the kill comes, however fast the
 * machine.
 */
export function heldUp(count: number, kills: number): string[] {
  return Array.from({ length: kills }, (_, kill) => idOf(Math.min(count - 50, Math.ceil((killAt(kill, kills) * count) / 100) * 100 + 150)));
}

export function peopleOf(count: number): People {
  const numbers = Array.from({ length: count }, (_, index) => index + 1);
  const isDouble = (number: number) => number % DOUBLE_EVERY === 0;
  const rows = numbers.map((number) => {
    const address = isDouble(number) ? number - 1 : number;
    const company = number === EMPLOYED.number ? EMPLOYED.company : `Company ${number % 50}`;
    return `${idOf(number)},person${address}@example.com,Person ${number},${company},+${number}`;
  });
  const step = Math.max(1, Math.floor(count / PUT_OFF));
  return {
    csv: `contact_id,email,name,company,phone\n${rows.join("\n")}\n`,
    all: numbers.map(idOf),
    merged: MERGES.map(([from, into]) => [idOf(from), idOf(into)]),
    doubles: numbers.filter(isDouble).map(idOf),
    unconnected: [idOf(EMPLOYED.number)],
    putOff: Array.from({ length: PUT_OFF }, (_, index) => idOf(index * step + 21)),
  };
}
