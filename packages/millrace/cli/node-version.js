// The first minor version of each major version that runs TypeScript without a flag. Wrangler needs 22.12.
const FIRST_MINOR = { 22: 18, 23: 6 };

/**
 * The reason why this Node cannot run the commands. Undefined if it can.
 * @param {string} version such as `22.18.0`
 */
export function nodeRefusal(version) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 23 || minor >= (FIRST_MINOR[major] ?? Number.POSITIVE_INFINITY)) return undefined;
  return `This is Node ${version}; Millrace needs 22.18 or newer. Add it to this folder: npm install --save-dev node (in a clone of Millrace: npm install).`;
}
