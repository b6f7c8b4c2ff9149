/** Where rogue servers send clients to. Nobody may come. */
import net, { type AddressInfo } from 'node:net'

export interface Elsewhere {
  url: string
  /** How many connections have come. */
  visits(): number
  close(): void
}

export async function startElsewhere(): Promise<Elsewhere> {
  let visits = 0
  const server = net.createServer((socket) => {
    visits += 1
    socket.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, visits: () => visits, close: () => void server.close() }
}
