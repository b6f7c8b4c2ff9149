/** `pipectl destinations reset-pin`: resets the pinned key of a database server. */
import type { Command } from 'commander'
import { nothingToDoFailure } from '../../client/failure.ts'
import { fullName, lanePath } from '../../client/workspace.ts'
import { clientCommand } from '../define.ts'
import { oneView, print } from '../output.ts'
import { findDestination } from '../references.ts'
import { confirm, say } from '../terminal.ts'
import { namingHelp } from './status.ts'

export function addPinCommand(destinations: Command): void {
  clientCommand(destinations, {
    usage: 'reset-pin <destination>',
    summary: 'reset the pinned key of a database server; the next connection pins the key that it finds',
    help: `${namingHelp}\nFor a server whose key was replaced: \`destinations test\` shows its present key.`,
    examples: ['pipectl destinations reset-pin orders/database --yes'],
    destructive: true,
    action: async (client, [reference], options) => {
      const { pipe, destination } = await findDestination(client, reference!)
      const name = fullName(pipe, destination)
      const pinned = destination.tls_pin?.sha256
      if (pinned !== undefined) {
        await confirm(
          `Reset the pinned key ${pinned} of ${name}? The next server that responds is trusted.`,
          options.yes,
        )
      }
      const reply = await client.call('resetTlsPin', {
        path: lanePath(destination),
      })
      await print(oneView(reply.text, reply.body.status, [['status', reply.body.status]]), options.output)
      if (!reply.body.reset) {
        throw nothingToDoFailure(`no key is pinned for ${name}`, 'there is nothing to do')
      }
      say(`The next connection of ${name} pins the key that the server has then.`)
    },
  })
}
