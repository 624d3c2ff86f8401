import { Misuse } from "../command.ts";

/** A number that stands behind `--name` on the command line of a demo. Errors: a `Misuse` for what is none, or too many. */
export function numberFrom(args: readonly string[], demo: string, name: string, otherwise: number, most: number): number {
  const place = args.findIndex((arg) => arg === `--${name}` || arg.startsWith(`--${name}=`));
  if (place < 0) return otherwise;
  const asked = args[place]?.split("=")[1] ?? args[place + 1] ?? "";
  const number = Number(asked);
  if (asked !== "" && Number.isInteger(number) && number >= 0 && number <= most) return number;
  throw new Misuse(
    `"${asked}" is no number of ${name}. Choose one from 0 to ${most}, such as: npm run demo -- ${demo} --${name} ${otherwise}`,
  );
}
