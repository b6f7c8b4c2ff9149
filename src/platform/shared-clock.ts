/** Milliseconds of a clock that all threads share and that nobody sets. It keeps counting while the process is stopped. */
export function sharedMs(): number {
  return Number(process.hrtime.bigint()) / 1_000_000
}
