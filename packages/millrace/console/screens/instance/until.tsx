import { Moment } from "../../parts/time.tsx";

/** Until when something lasts, behind what it is; nothing where nobody knows. */
export function Until({ at }: { at: string | null }) {
  if (at === null) return null;
  return (
    <>
      , until <Moment at={at} />
    </>
  );
}
