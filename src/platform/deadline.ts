/** Bounded waits for work whose result can be abandoned: a crash would leave the same state. */

/**
 * Returns false when the work has not ended within the limit. The work continues and its outcome is ignored. Rejects
 * when the work rejects before the limit.
 */
export async function endsWithin(limitMs: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), limitMs)
  })
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    clearTimeout(timer)
    work.catch(() => {})
  }
}
