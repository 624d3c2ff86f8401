import { upstreamRefused } from "millrace";

export const refuse = (broken: () => boolean, did: () => unknown) => async () =>
  broken() ? Promise.reject(upstreamRefused("No.", 402)) : did();
