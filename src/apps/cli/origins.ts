/** `pipectl origins …`: the browser origins that can send to a pipe. */
import type { Command } from 'commander'
import { notFoundFailure } from '../client/failure.ts'
import { clientCommand, group } from './define.ts'
import { listView, oneView, print } from './output.ts'
import { findPipe, readPipe } from './references.ts'
import { confirm, say } from './terminal.ts'

export function addOriginsCommands(program: Command): void {
  const origins = group(program, 'origins', 'browser origins that can send to a pipe')
  clientCommand(origins, {
    usage: 'list <pipe>',
    summary: 'list the allowed origins of a pipe',
    examples: ['pipectl origins list clicks'],
    action: async (client, [reference], options) => {
      const { allowed_origins: list } = (await readPipe(client, reference!)).body
      const view = listView(list, {
        json: JSON.stringify({ allowed_origins: list }),
        name: (one) => one.origin_domain,
        columns: [
          [{ label: 'ORIGIN', shrinksTo: 40 }, (one) => one.origin_domain],
          [{ label: 'ORIGIN ID', isSpare: true }, (one) => one.pipe_allowed_origin_id],
        ],
        empty: 'no allowed origins',
      })
      await print(view, options.output)
    },
  })
  clientCommand(origins, {
    usage: 'add <pipe> <origin>',
    summary: 'allow an origin',
    examples: ['pipectl origins add clicks https://shop.example.com'],
    action: async (client, [reference, origin], options) => {
      const pipe = await findPipe(client, reference!)
      const reply = await client.call('addAllowedOrigin', {
        path: { pipe_id: pipe.pipe_id },
        body: { origin_domain: origin! },
      })
      say(`Allowed ${origin} on ${pipe.pipe_name}.`)
      const id = reply.body.pipe_allowed_origin_id
      await print(oneView(reply.text, id, [['pipe_allowed_origin_id', id]]), options.output)
    },
  })
  clientCommand(origins, {
    usage: 'remove <pipe> <origin>',
    summary: 'remove an allowed origin, by its value or its id',
    examples: ['pipectl origins remove clicks https://shop.example.com --yes'],
    output: false,
    destructive: true,
    action: async (client, [reference, origin], options) => {
      const { pipe, allowed_origins: list } = (await readPipe(client, reference!)).body
      const found = list.find(
        (one) =>
          one.origin_domain === origin!.toLowerCase() ||
          one.origin_domain === origin ||
          one.pipe_allowed_origin_id === origin,
      )
      if (found === undefined) {
        throw notFoundFailure(
          `${origin} is not an allowed origin of ${pipe.pipe_name}`,
          `\`pipectl origins list ${pipe.pipe_name}\` shows the allowed ones`,
        )
      }
      await confirm(`No longer allow ${found.origin_domain} on ${pipe.pipe_name}?`, options.yes)
      await client.call('removeAllowedOrigin', {
        path: { pipe_id: pipe.pipe_id, origin_id: found.pipe_allowed_origin_id },
      })
      say(`Removed ${found.origin_domain} from ${pipe.pipe_name}.`)
    },
  })
}
