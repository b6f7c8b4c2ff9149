/**
 * Opens the screen in the terminal's alternate buffer, so that the previous content is restored at the end.
 *
 * Trap: ink erases its last frame by its number of lines. A terminal that shrinks has already wrapped or truncated
 * those lines, so parts of old frames remain. After a resize has settled, everything is cleared and drawn again.
 */
import { type Instance, render } from 'ink'
import type { Client } from '../client/client.ts'
import { App } from './app.tsx'

const settleMs = 60
const secondPage = '\x1b[?1049h'
const firstPage = '\x1b[?1049l'
const wipe = '\x1b[2J\x1b[3J\x1b[H'

/** Resolves when the user quits. stdout must be a terminal. */
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
