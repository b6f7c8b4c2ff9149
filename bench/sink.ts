/** A local HTTP endpoint in a process of its own, so that its work is not counted as the daemon's or the bench's. */
import { fork } from 'node:child_process'
import http from 'node:http'

export interface Sink {
  url: string
  records(): Promise<number>
  close(): void
}

/** Counts the lines of every body it is sent. */
export async function startSink(): Promise<Sink> {
  const child = fork(new URL(import.meta.url), {
    execArgv: ['--import=tsx'],
    env: { ...process.env, BENCH_SINK: '1' },
  })
  const port = await new Promise<number>((resolve) =>
    child.once('message', (message) => resolve(Number(message))),
  )
  const url = `http://127.0.0.1:${port}/`
  return {
    url,
    records: async () => Number(await (await fetch(url)).text()),
    close: () => child.kill(),
  }
}

function serve(): void {
  let lines = 0
  const server = http.createServer((request, response) => {
    if (request.method === 'GET') {
      response.end(String(lines))
      return
    }
    let last = 10
    request.on('data', (chunk: Buffer) => {
      for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, at + 1)) lines++
      last = chunk[chunk.length - 1] ?? last
    })
    request.on('end', () => {
      if (last !== 10) lines++
      response.end()
    })
  })
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    if (address !== null && typeof address === 'object') process.send?.(address.port)
  })
}

if (process.env.BENCH_SINK === '1') serve()
