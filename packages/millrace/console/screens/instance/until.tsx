import { Moment } from "../../parts/time.tsx";

export function Until({ at }: { at: string | null }) {
  if (at === null) return null;
  return (
    <>
      , until <Moment at={at} />
    </>
  );
}
