/** Every so manieth row has no address. */
const BROKEN_EVERY = 1000;

/** A file of contacts, and which of its lines are broken. */
export function contactsFile(rows: number): { text: string; broken: number[] } {
  const broken: number[] = [];
  const lines = ["contact_id,email,name,plan"];
  for (let row = 1; row <= rows; row++) {
    const isBroken = row % BROKEN_EVERY === 0;
    lines.push(`c${String(row).padStart(7, "0")},${isBroken ? "no address" : `person${row}@example.com`},"Person, ${row}",gold`);
    if (isBroken) broken.push(lines.length);
  }
  return { text: `${lines.join("\n")}\n`, broken };
}
