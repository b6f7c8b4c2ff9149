/** Waits that end: of what is not worth more than so long, because a crash would leave the same behind. */

/** False: the work had not ended after that time. It continues, and how it ends is ignored. Rejects as the work does before. */
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
