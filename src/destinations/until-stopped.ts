/** For work that does not always settle when it is aborted: rejects with the signal's reason if the signal comes first. */
export function untilStopped<T>(work: Promise<T>, stop: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onStop = () => reject(stop.reason)
    stop.addEventListener('abort', onStop, { once: true })
    work.then(resolve, reject).finally(() => stop.removeEventListener('abort', onStop))
    if (stop.aborted) onStop()
  })
}
