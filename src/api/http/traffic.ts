/** The number of requests in progress, and whether the server is stopping. */
export interface Traffic {
  /** Returns the function to call when the request is over. */
  begin(): () => void
  underWay(): number
  stop(): void
  isStopping(): boolean
  idle(): Promise<void>
}

export function countTraffic(): Traffic {
  let count = 0
  let isStopping = false
  let waiting: (() => void)[] = []
  const end = () => {
    count--
    if (count > 0) return
    for (const resolve of waiting) resolve()
    waiting = []
  }
  return {
    begin: () => {
      count++
      return end
    },
    underWay: () => count,
    stop: () => {
      isStopping = true
    },
    isStopping: () => isStopping,
    idle: () => (count === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
  }
}
