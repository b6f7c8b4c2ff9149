/**
 * Opens the screen, on the terminal's second page so that what was there comes back at the end.
 *
 * Trap: ink counts the lines of its last frame to erase it, but a terminal that shrinks has wrapped or cut them
 * already, and remains of old frames stay. So after a resize has settled everything is wiped and drawn again.
 */
import { type Instance, render } from 'ink'
import type { Client } from '../client/client.ts'
import { App } from './app.tsx'

const settleMs = 60
const secondPage = '\x1b[?1049h'
const firstPage = '\x1b[?1049l'
const wipe = '\x1b[2J\x1b[3J\x1b[H'

/** Resolves when the person quits. stdout must be a terminal. */
export async function runTop(client: Client, options: { readOnly: boolean }): Promise<void> {
  const { stdout } = process
  let wiped = 0
  const app = () => (
    <App
      client={client}
      readOnly={options.readOnly}
      width={stdout.columns ?? 80}
      height={stdout.rows ?? 24}
      wiped={wiped}
    />
  )
  stdout.write(secondPage + wipe)
  const screen: Instance = render(app(), { patchConsole: false })
  let settling: NodeJS.Timeout | undefined
  const onResize = () => {
    clearTimeout(settling)
    settling = setTimeout(() => {
      screen.clear()
      stdout.write(wipe)
      wiped += 1
      screen.rerender(app())
    }, settleMs)
  }
  stdout.on('resize', onResize)
  try {
    await screen.waitUntilExit()
  } finally {
    stdout.off('resize', onResize)
    clearTimeout(settling)
    stdout.write(firstPage)
  }
}
