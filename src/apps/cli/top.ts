/** `pipectl top`: shows pipes and lanes on a live screen. */
import type { Command } from 'commander'
import { usageFailure } from '../client/failure.ts'
import { OverviewFeed } from '../client/overview-feed.ts'
import { connect } from './connection.ts'
import { define } from './define.ts'
import { io } from './io.ts'

export function addTopCommand(program: Command): void {
  define<{ readOnly?: boolean }>(program, {
    usage: 'top',
    summary: 'watch pipes and lanes live; retry or skip what blocks a lane',
    help: 'Press ? for the keys.',
    examples: ['pipectl top', 'pipectl top --read-only --profile prod'],
    daemon: true,
    options: (command) => command.option('--read-only', 'disable the keys that change something'),
    action: async (_, options) => {
      if (io().stdout.isTTY !== true || io().stdin.isTTY !== true) {
        throw usageFailure(
          'top needs a terminal, and this is not one',
          'use `pipectl status -o json` or `pipectl lanes list` in scripts',
        )
      }
      const client = await connect(options)
      // A wrong key or address is reported before the screen opens. Later, the screen shows that its data is stale.
      await new OverviewFeed(client).next()
      // React's development build is several times slower and writes warnings to the screen.
      process.env.NODE_ENV ??= 'production'
      const { runTop } = await import('../tui/run-top.tsx')
      await runTop(client, { readOnly: options.readOnly === true })
    },
  })
}
