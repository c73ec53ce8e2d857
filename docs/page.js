// Adapts a page to narrow screens. Without this script, wide tables scroll, and only the sidebar has the contents.
'use strict';

(() => {
    const main = document.querySelector('main');
    const create = (tag, properties, ...children) => {
        const element = Object.assign(document.createElement(tag), properties);
        element.append(...children);
        return element;
    };

    // The contents of the page. If the sidebar is open, it has them, and book.css hides this list.
    const headings = [...main.querySelectorAll('h2[id], h3[id]')];
    if (headings.length > 1) {
        const entries = headings.map(heading => create('li', { className: heading.tagName === 'H3' ? 'inner' : '' },
            create('a', { href: '#' + heading.id, textContent: heading.textContent })));
        const list = create('details', { className: 'on-page' },
            create('summary', { textContent: 'On this page' }), create('ul', {}, ...entries));
        main.querySelector('h1').after(list);
    }

    // Output in columns must not be wrapped. Messages are, even if there is a table below them.
    for (const code of main.querySelectorAll('code.language-text')) {
        const output = code.textContent;
        code.classList.toggle('in-columns', /\S {3,}\S|---/.test(output) && !/^(NOTICE|WARNING|ERROR|LOG):/m.test(output));
    }

    // In a table that is wider than the page, long names may be broken. If it is still wider, its rows become blocks, or it
    // scrolls if its columns are numbers, which are compared with those above and below.
    const tables = [...main.querySelectorAll('table')];
    for (const table of tables) {
        const heads = [...table.querySelectorAll('th')].map(head => head.textContent);
        for (const cell of table.querySelectorAll('td')) {
            if (heads[cell.cellIndex]) {
                cell.dataset.head = heads[cell.cellIndex];
            }
        }
    }
    const isWide = table => table.scrollWidth > table.parentElement.clientWidth;
    const isOfNumbers = table => !table.querySelector('th:not(:first-child):not([style*="right"])');
    const breakNames = table => {
        for (const code of table.querySelectorAll('td code:not(:has(wbr))')) {
            code.innerHTML = code.innerHTML.replaceAll(/[_./](?=\w)(?![^<]*>)/g, '$&<wbr>');
        }
    };
    const fit = () => {
        tables.forEach(table => table.classList.remove('stacked', 'narrow'));
        tables.filter(isWide).forEach(breakNames);
        tables.filter(isWide).forEach(table =>
            table.classList.add(isOfNumbers(table) ? 'narrow' : 'stacked'));
    };
    let width = 0;
    new ResizeObserver(() => {
        if (width !== main.clientWidth) {
            width = main.clientWidth;
            fit();
        }
    }).observe(main);
    document.fonts.ready.then(fit);
})();
