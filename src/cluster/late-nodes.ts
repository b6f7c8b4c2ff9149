/**
 * Tracks nodes that respond late to reads. A read waits at most `answerWithinMs` for a node. A node that has not
 * responded by then is skipped until it responds, so that a lost node delays one screen and not all of them.
 *
 *   prompt ──no response in time──▶ late ──its response, also to a probe, arrives──▶ prompt
 *                                   └──it owns no pipe any more──▶ removed
 */
import { endsWithin } from '../platform/deadline.ts'

const answerWithinMs = 1_000

export class LateNodes {
  readonly #late = new Set<string>()
  readonly #probed = new Set<string>()

  isLate(node: string): boolean {
    return this.#late.has(node)
  }

  /** Returns undefined when the node is or becomes late. Rejects as `ask` does. */
  async read<T>(node: string, ask: () => Promise<T>): Promise<T | undefined> {
    if (this.#late.has(node)) return undefined
    const asked = ask()
    if (await endsWithin(answerWithinMs, asked)) return await asked
    this.#late.add(node)
    this.#awaitAnswer(node, asked)
    return undefined
  }

  /** Called once a second. `owners` are the nodes that own pipes now. */
  async probe(
    owners: () => Promise<ReadonlySet<string>>,
    ask: (node: string) => Promise<unknown>,
  ): Promise<void> {
    if (this.#late.size === 0) return
    const known = await owners()
    for (const node of this.#late) {
      if (!known.has(node)) this.#late.delete(node)
      else if (!this.#probed.has(node)) {
        this.#probed.add(node)
        this.#awaitAnswer(
          node,
          ask(node).finally(() => this.#probed.delete(node)),
        )
      }
    }
  }

  #awaitAnswer(node: string, asked: Promise<unknown>): void {
    asked.then(
      () => this.#late.delete(node),
      () => {},
    )
  }
}
