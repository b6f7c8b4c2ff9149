/**
 * The script of the guides: menu on small screens, search, copy buttons. Pages are complete without it. It runs before the
 * body is parsed, so that nothing moves once a page is shown, and it loads only files beside itself.
 */
;(() => {
  const base = document.currentScript.src.replace(/[^/]*$/, '')
  document.documentElement.classList.add('js')
  document.addEventListener('DOMContentLoaded', () => {
    addMenu()
    addSearch()
    for (const block of document.querySelectorAll('.code')) addCopyButton(block)
  })

  function addMenu() {
    const button = document.querySelector('.menu')
    const pages = document.getElementById('pages')
    button.addEventListener('click', () => {
      const isOpen = pages.classList.toggle('open')
      button.setAttribute('aria-expanded', String(isOpen))
    })
    const current = pages.querySelector('[aria-current]')
    if (current !== null) pages.scrollTop = current.offsetTop - pages.clientHeight / 2
  }

  function addCopyButton(block) {
    const button = element('button', { type: 'button', className: 'copy', textContent: 'Copy' })
    button.addEventListener('click', async () => {
      const isCopied = await copy(block.querySelector('code'))
      button.textContent = isCopied ? 'Copied' : 'Press Ctrl+C'
      announce(isCopied ? 'Copied' : 'The text is selected')
      setTimeout(() => {
        button.textContent = 'Copy'
      }, 2000)
    })
    block.append(button)
  }

  /** Browsers give the clipboard only to HTTPS and localhost. Elsewhere the text is selected and copied the old way. */
  async function copy(code) {
    // Without the last line break, which a shell would take as Enter.
    const text = code.textContent.replace(/\n$/, '')
    try {
      await navigator.clipboard.writeText(text)
      return true
    } catch {
      getSelection().selectAllChildren(code)
      return document.execCommand('copy')
    }
  }

  function addSearch() {
    const input = document.getElementById('search')
    const results = document.getElementById('results')
    const show = () => {
      const wanted = wordsOf(input.value)
      const found = wanted.length === 0 ? [] : search(globalThis.pipectlDocs ?? [], wanted)
      results.replaceChildren(...found.map((one) => resultItem(one, wanted)))
      results.hidden = wanted.length === 0
      if (wanted.length === 0 || globalThis.pipectlDocs === undefined) return
      if (found.length === 0)
        results.append(element('li', { className: 'none', textContent: 'No section has these words.' }))
      announce(`${found.length} results`)
    }
    input.addEventListener('focus', () => loadIndex(show))
    input.addEventListener('input', show)
    document.addEventListener('keydown', (event) => {
      const isTyping = event.target.matches('input, textarea, select')
      if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault()
        input.focus()
        input.select()
      } else if (event.key === 'Escape' && !results.hidden) {
        input.value = ''
        show()
        input.focus()
      } else if (event.target.closest('.search')) moveIn([input, ...results.querySelectorAll('a')], event)
    })
    document.addEventListener('click', (event) => {
      if (event.target.closest('.search') === null) results.hidden = true
    })
  }

  /** Arrow keys walk through the results; Enter in the field opens the first one. */
  function moveIn(stops, event) {
    const at = stops.indexOf(event.target)
    const next = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key]
    if (next !== undefined) {
      event.preventDefault()
      stops[next]?.focus()
    } else if (event.key === 'Enter' && at === 0) stops[1]?.click()
  }

  let isLoading = false
  function loadIndex(done) {
    if (isLoading) return
    isLoading = true
    const script = element('script', { src: `${base}search-index.js` })
    script.addEventListener('load', done)
    script.addEventListener('error', () => {
      isLoading = false
    })
    document.head.append(script)
  }

  function wordsOf(text) {
    return text.toLowerCase().split(/\s+/).filter(Boolean)
  }

  /** Sections that have every word, best first. A word in a title counts more than one in the text. */
  function search(pages, wanted) {
    const found = []
    for (const { title, name, isGuide, sections } of pages) {
      for (const [anchor, heading, text] of sections) {
        const isTop = anchor === sections[0][0]
        const fields = [
          [title.toLowerCase(), isTop ? 12 : 3],
          [heading.toLowerCase(), 8],
          // In a long section, words that are far from each other say little.
          [text.toLowerCase(), 2 / (1 + text.length / 2000)],
        ]
        const scores = wanted.map((word) => Math.max(...fields.map((field) => scoreOf(word, ...field))))
        if (scores.includes(0)) continue
        const score = scores.reduce((sum, one) => sum + one, 0) / (isGuide ? 1 : 2)
        found.push({ score, title, heading, text, href: `${base}${name}${isTop ? '' : `#${anchor}`}` })
      }
    }
    return found.sort((one, other) => other.score - one.score).slice(0, 12)
  }

  /** A word that begins there counts twice as much as letters inside another word. */
  function scoreOf(word, text, weight) {
    const at = text.indexOf(word)
    if (at === -1) return 0
    const begins = at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1]) || text.includes(` ${word}`)
    return begins ? weight * 2 : weight
  }

  function resultItem({ title, heading, text, href }, wanted) {
    const link = element('a', { href })
    link.append(element('b', { textContent: heading === title ? title : `${title} › ${heading}` }))
    const positions = wanted.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at !== -1)
    const from = Math.max(0, Math.min(...positions, text.length) - 40)
    const excerpt = element('span', {})
    const part = text.slice(from, from + 150)
    excerpt.append(from > 0 ? '… ' : '', ...marked(from > 0 ? part.replace(/^\S*\s/, '') : part, wanted))
    link.append(excerpt)
    const item = document.createElement('li')
    item.append(link)
    return item
  }

  function marked(text, wanted) {
    const pattern = wanted.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|')
    return text
      .split(new RegExp(`(${pattern})`, 'i'))
      .map((part, index) => (index % 2 === 1 ? element('mark', { textContent: part }) : part))
  }

  /** For screen readers. */
  function announce(text) {
    document.getElementById('status').textContent = text
  }

  function element(name, properties) {
    return Object.assign(document.createElement(name), properties)
  }
})()
