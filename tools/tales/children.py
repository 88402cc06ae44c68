"""Short, warm stories about children and daily life, made from hand-written schemas.

A schema is a text in a tiny language:
  a | b | c        one slot: one of the alternatives is told
  ? a | b          the slot is told half of the time
  <a/b/c>          a choice inside a sentence
  $k = a; b        set {k};   $k,l = a/b; c/d   set several together
  [[ || ]]         one of several branches (each marker on its own line)
  (( ))            the slots between are told in random order
  empty line       new paragraph
  T: a | b         possible titles      A: x, y | z   what it is about
"""
import re

GIRLS = """Anna Mia Lucy Ella Rosa Priya Mei Amina Zara Leila Sofia Nora Ines Yuki Hana Freya Tara Ruby Clara Lena
Maya Nina Olga Petra Wanda Iris Fatima Chloe Daisy Emma Grace Holly Ivy Julia Kira Lily Marta Naomi Paula Rania Sana Tess
Vera Willa Ximena Zoe Aiko Bella Carmen Dalia Esme Gita Imani Jaya Kezia Lupe Malia Noor Oona Pia Signe Thandi Yara Abena""".split()
BOYS = """Adam Ben Carlos Daniel Eli Felix George Hugo Ivan Jack Kofi Leo Milo Noah Omar Pablo Rafi Sam Theo Viktor
Will Yusuf Arjun Bao Chidi Diego Emil Finn Goran Henry Idris Jonas Kenji Luca Marco Nils Oscar Peter Ravi Stefan Tom Umar
Wei Zane Ali Bruno Caleb Dev Enzo Farid Hassan Ibrahim Jamal Kai Lars Mateo Nikhil Otis Pavel Ruben Sven Tariq Toby Zubair""".split()
LAST = """Okafor Lind Garcia Patel Brown Novak Tanaka Silva Reed Cole Haddad Berg Chen Rossi Mbeki Flores Kaya Miller
Walsh Singh Moreau Park Hill Duarte Kowalski Ahmed Young Fisher""".split()


def base(r):
    d = {}
    first = set()
    for name, i in (("n", ""), ("m", "2"), ("o", "3")):
        girl = r.random() < 0.5
        while True:
            x = r.choice(GIRLS if girl else BOYS)
            if x[0] not in first:
                break
        first.add(x[0])
        d[name] = x
        for k, v in zip(("he", "him", "his", "self", "kid", "bro", "son", "boyname"),
                        ("she", "her", "her", "herself", "girl", "sister", "daughter", "g") if girl else
                        ("he", "him", "his", "himself", "boy", "brother", "son", "b")):
            d[k + i] = v
    d["mum"], d["dad"] = r.choice((("Mum", "Dad"), ("Mom", "Dad"), ("Mama", "Papa"), ("Mom", "Dad")))
    d["gran"] = r.choice(("Grandma", "Granny", "Nana", "Grandmother", "Grandma"))
    d["granl"] = d["gran"].lower()
    d["gramp"] = r.choice(("Grandpa", "Granddad", "Grandfather", "Grandpa"))
    woman = r.random() < 0.5
    la, lb = r.sample(LAST, 2)
    d["teacher"] = (r.choice(("Mrs. ", "Miss ", "Ms. ")) if woman else "Mr. ") + la
    d["the"], d["thim"], d["this"] = ("she", "her", "her") if woman else ("he", "him", "his")
    old = r.random() < 0.5
    d["elder"] = ("Mrs. " if old else "Mr. ") + lb
    d["ehe"], d["ehim"], d["ehis"], d["eman"] = ("she", "her", "her", "woman") if old else ("he", "him", "his", "man")
    if r.random() < 0.5:
        d["parent"], d["phe"], d["phim"], d["phis"] = d["mum"], "she", "her", "her"
        d["other"] = d["dad"]
    else:
        d["parent"], d["phe"], d["phim"], d["phis"] = d["dad"], "he", "him", "his"
        d["other"] = d["mum"]
    d["day"] = r.choice("Monday Tuesday Wednesday Thursday Friday".split())
    d["wday"] = r.choice(("Saturday", "Sunday"))
    return d


def parse(lines, i=0, stop=None):
    """-> list of nodes, next index"""
    out = []
    while i < len(lines):
        s = lines[i].strip()
        i += 1
        if s == "[[":
            alts = []
            while True:
                sub, i, how = parse(lines, i, ("||", "]]"))
                alts.append(sub)
                if how == "]]":
                    break
            out.append(("alt", alts))
        elif s == "((":
            sub, i, how = parse(lines, i, ("))",))
            out.append(("mix", [x for x in sub]))
        elif stop and s in stop:
            return out, i, s
        elif s in ("]]", "||", "))"):
            raise ValueError("stray " + s)
        elif s == "":
            out.append(("par",))
        elif s.startswith("$"):
            k, v = s[1:].split("=", 1)
            keys = [x.strip() for x in k.split(",")]
            vals = [[y.strip() for y in x.split("/")] if len(keys) > 1 else [x.strip()] for x in v.split(";")]
            for x in vals:
                assert len(x) == len(keys), s
            out.append(("set", keys, vals))
        elif s.startswith("T:"):
            out.append(("title", [x.strip() for x in s[2:].split(" | ")]))
        elif s.startswith("A:"):
            out.append(("about", [x.strip() for x in s[2:].split(" | ")]))
        else:
            opt = s.startswith("? ")
            if opt:
                s = s[2:]
            out.append(("say", opt, [x.strip() for x in s.split(" | ")]))
    if stop:
        raise ValueError("missing end")
    return out, i, None


def fill(r, d, s):
    s = re.sub(r"<([^<>]*)>", lambda m: r.choice(m.group(1).split("/")), s)

    def sub(m):
        k = m.group(1)
        if k in d:
            return d[k]
        v = d[k[0].lower() + k[1:]]
        return v[0].upper() + v[1:]
    for _ in range(3):
        if "{" not in s:
            break
        s = re.sub(r"\{(\w+)\}", sub, s)
    s = re.sub(r"\b([Aa]) (?=[aeiouAEIO])(?!one\b|once\b|uni|use)", r"\1n ", s)
    s = re.sub(r"  +", " ", s).strip()
    m = re.match(r'^("?)([a-z])', s)
    if m:
        s = m.group(1) + m.group(2).upper() + s[m.end():]
    return s


def run(r, d, nodes, st):
    for nd in nodes:
        k = nd[0]
        if k == "par":
            if st["p"][-1]:
                st["p"].append([])
        elif k == "set":
            for key, v in zip(nd[1], r.choice(nd[2])):
                d[key] = fill_raw(r, d, v)
        elif k == "title":
            st["t"] = (st["t"] if not st.get("tb") else []) + nd[1]
        elif k == "about":
            st["a"] = st["a"] + nd[1]
        elif k == "alt":
            run(r, d, r.choice(nd[1]), st)
        elif k == "mix":
            sub = [x for x in nd[1] if x[0] != "par"]
            r.shuffle(sub)
            run(r, d, sub, st)
        else:
            if nd[1] and r.random() < 0.5:
                continue
            alts = nd[2][:]
            st["p"][-1].append(fill(r, d, r.choice(alts)))


def fill_raw(r, d, s):
    s = re.sub(r"<([^<>]*)>", lambda m: r.choice(m.group(1).split("/")), s)
    return re.sub(r"\{(\w+)\}", lambda m: d[m.group(1)], s)


def title_case(s):
    small = {"a", "an", "the", "and", "of", "in", "on", "to", "for", "with", "at", "that", "by"}
    w = s.split()
    return " ".join(x if (i and x in small) else x[0].upper() + x[1:] for i, x in enumerate(w))


def make(name, text):
    nodes = parse(text.strip().split("\n"))[0]

    def f(r):
        d = base(r)
        st = {"p": [[]], "t": [], "a": []}
        run(r, d, nodes, st)
        paras = [" ".join(x) for x in st["p"] if x]
        if not 130 <= sum(len(x.split()) for x in paras) <= 375:
            return f(r)
        ab = fill(r, d, r.choice(st["a"])).split(",")
        ab = [x.strip() for x in ab]
        ab = [x[0].lower() + x[1:] for x in ab]
        for k in ("girl", "boy"):
            if ab.count(k) == 2:
                ab = ["two " + k + "s"] + [x for x in ab if x != k]
        return {"title": title_case(fill(r, d, r.choice(st["t"]))),
                "text": "\n\n".join(paras), "about": ab}
    f.__name__ = name
    return f


TEXTS = {}

TEXTS["lost_toy"] = """
$toy,col = teddy bear/brown; rabbit/grey; elephant/blue; fox/orange; lamb/white; tiger/striped; penguin/black and white; monkey/brown
$tn = Button; Pip; Waffles; Mister Soft; Bobo; Tuck; Pepper; Noodle
$pet,pn = dog/Rusty; puppy/Biscuit; cat/Smoky; kitten/Dot
T: where is {tn}? | the lost {toy} | {n} looks for {tn} | the {toy} that went missing
A: {kid}, lost toy | toy {toy} | lost toy
[[
{n} had a <small/soft/floppy> {col} {toy} called {tn}. | {n}'s best toy was a {col} {toy} with one loose ear, and its name was {tn}. | Of all the toys in the house, {n} loved {tn} the most. {tn} was a {col} {toy} with <button eyes/a worn nose/a patch on its knee>.
{tn} came along to breakfast, to the bath and to bed. | Every night {he} tucked {tn} under {his} arm and fell asleep at once. | Without {tn}, {n} could not fall asleep.
One <evening/night>, the place on the pillow was empty. | But on {day} evening, when it was time for bed, {tn} was not there. | Then one rainy evening {tn} was gone.
||
"{tn} is gone!" cried {n} one <{day}/windy/rainy> evening. | It was bedtime on {day}, and {n} could not find {tn}. | "Has anybody seen {tn}?" asked {n}, standing in the hall in {his} pyjamas.
{tn} was a {col} {toy}, as old as {n} {self}. | {tn} was {his} toy {toy}, {col} and soft, and {he} had never slept one night without it.
]]

{He} looked under the bed and behind the <curtain/door/bookshelf>. | First {he} pulled all the blankets off the bed. Then {he} crawled under it and found only a sock and some dust. | {He} searched {his} room from one corner to the other.
{dad} looked in the bathroom, and {mum} looked in the kitchen. | {mum} checked the car, and {dad} shook out the laundry basket. | The whole family helped. {mum} opened every drawer, and {dad} even looked in the fridge.
"Where did you have it last?" asked {dad}. "I don't know," said {n}, and {his} voice was very small. | "When did you last play with it?" {mum} asked. {n} tried to think, but {his} head was full of worry. | "We will find it," said {mum}. "Toys do not walk away by themselves."
? "Maybe {tn} went on a trip," said {dad}, but {n} could not laugh. | They found a lost glove, two coins and a puzzle piece, but no {toy}. | It was getting late, and everyone was tired.

[[
At last {n} sat down on the floor next to the {pet}'s basket. | In the end {n} went to say good night to {pn}, the family's {pet}.
{pn} the {pet} did not get up. That was strange, because {pn} always got up to say hello. | {pn} lay curled up in the basket and looked at {him} with sleepy eyes. | "You are lying in a funny way, {pn}," said {n}, and bent down to look.
There, under one warm paw, was a {col} ear. | Something {col} was sticking out from under {pn}'s chin. | And there was {tn}, tucked under {pn}'s soft belly.
"{pn}! You had {tn} the whole time!" {n} laughed out loud. | "So you need a friend at night too," {n} said softly. | {n} did not know whether to laugh or to cry, so {he} did a little of both.

The next day {n} picked out an old <cushion/blanket/sock> and gave it to {pn}. From then on, each of them had something soft to sleep with. | {dad} found an old woolly hat for {pn}, and the {pet} slept on it every night after that. {n} slept with {tn}, and nobody was alone. | {n} gave {pn} a big hug and an old cushion to keep. Then {he} carried {tn} to bed and was asleep in one minute.
||
Then {n} stopped and thought hard. That afternoon {he} had played <bakery/shop/post office> in the kitchen. | "Wait," said {n} slowly. "We played picnic today, and {tn} was very hungry." | {n} shut {his} eyes and walked through the day again in {his} mind. Breakfast, school, soup, and then a game of cooks.
{He} ran to the kitchen and opened the biggest <pot/pan> in the cupboard. | {He} went straight to the low cupboard and lifted the lid of the soup pot.
Two shiny eyes looked up at {him}. It was {tn}! | There sat {tn}, with a wooden spoon in its lap. | Inside, quite comfortable, was {tn}.
"Nobody thought of looking there," said {mum}, and she began to laugh. | "I was going to cook in that pot tomorrow!" said {dad}. "What a soup that would have been!"

After that, {n} made a new rule. Before supper, {tn} had to be back on the pillow. | {n} held {tn} tight all night. And from that day on, {he} put {his} toys back after every game. | "Next time I will think first and search after," said {n}, and {he} carried {tn} to bed.
]]
"""

TEXTS["first_day"] = """
$thing,thing2 = a smooth stone from the beach/the stone; a red button/the button; a tiny wooden horse/the wooden horse; a blue marble/the marble; a shell/the shell
$game = marbles; tag; hide and seek; hopscotch; jump rope
T: {n}'s first day | the first day at school | a new school for {n} | the {kid} by the window
A: first day at school | {kid}, new school | school, new friend | {kid}, school
[[
Today was {n}'s first day at school. | {n} woke up before the alarm. It was the first day of school. | The new school bag stood by the door, and {n} looked at it with a funny feeling in {his} stomach.
"What if nobody talks to me?" {he} asked at breakfast. | {He} could not eat {his} <toast/egg/porridge>. "What if I get lost?" {he} asked. | "My tummy is full of butterflies," {he} told {parent}.
"Take something small from home with you," said {parent}. So {n} put {thing} into {his} pocket. | {parent} gave {him} {thing}. "Hold it when you feel shy," {phe} said. | {parent} smiled. "That feeling goes to sleep after a while. Here, take this along." It was {thing}.
||
It was the first day of school, and {n} held {parent}'s hand very tightly all the way. | The school was a big <yellow/brick/white> building, and {n} felt very small in front of it. | On {day} morning, {n} and {parent} walked to the new school together.
In {his} pocket {he} had {thing}. It was from home, and it made {him} feel a little braver. | {He} had put {thing} in {his} pocket that morning, just in case {he} needed to hold on to something.
"I will be right here at three o'clock," said {parent}, and gave {him} a kiss. | At the gate {parent} bent down. "You only have to be brave for one morning," {phe} said.
]]

The classroom was loud and bright. | Inside, twenty children were talking at the same time. | There were pictures on the walls and rows of small chairs.
The teacher's name was {teacher}, and {the} had a kind voice. | {teacher}, the teacher, showed {n} a hook with {his} name on it. | "Welcome, {n}," said {teacher}, the teacher. "We are glad you are here."
{n} sat down by the window and did not say a word. | {n} found an empty chair at the back and looked at {his} shoes. | {n} wanted to say hello, but the word would not come out.
? When {teacher} asked a question, {n} knew the answer but kept {his} hand down. | During drawing time {he} drew {his} own house, with the door open.

[[
At break, {n} stood alone beside the <wall/big tree/fence>. Then {he} saw a {kid2} who was standing alone too. | Out in the yard, everybody ran and shouted. Only one other child was not playing, a {kid2} with a <green/yellow/red> hat.
{n} squeezed the thing in {his} pocket and walked over. "Hello," {he} said. "Are you new too?" | It took ten steps to get there, and {n} counted each one. "Do you want to see something?" {he} asked.
"Yes, I'm {m}," said the {kid2}. "I was hoping someone would come." | The {kid2} looked up and smiled at once. "I'm {m}," said the {kid2}. "I don't know anybody here."
{n} showed {m} {thing2}, and soon they were talking about all the things they liked to collect. | {n} pulled out {thing2}, they looked at it together, and then {m} taught {n} a game of {game}.
||
At break, {n} put {his} hand in {his} pocket, and it was empty! {His} little treasure had fallen out. | In the yard, {n} reached into {his} pocket, but there was only a hole.
{He} looked along the path, under the bench and beside the steps, and {his} eyes began to sting. | {He} went back over the grass, step by step, and tried not to cry.
"Are you looking for this?" asked a voice. A {kid2} from {his} class was holding {thing2}. | Then a {kid2} came running. "You dropped this," said the {kid2}, and opened one hand. It was {thing2}!
"Thank you!" said {n}, and the words came out by themselves. "What is your name?" "{m}," said the {kid2}. "Do you like {game}?" | "I'm {m}," the {kid2} said. "Come on, we need one more for {game}."
They played until the bell rang, and {n} forgot to be shy. | {n} did like {game}, and {he} turned out to be quite good at it.
]]

At three o'clock {parent} was waiting at the gate. | When school was over, {parent} stood outside with a big smile.
"How was it?" {phe} asked. "Much too short," said {n}. | "Well?" asked {parent}. "Can I go again tomorrow?" said {n}. | "I have a friend," said {n}, before {parent} could even ask.
? {m} waved from across the street, and {n} waved back with both arms. | All the way home, {n} talked and talked.
The next morning {he} let {m} hold {thing2} for a while, because now {he} did not need it so much. | The next day, {n} ate all of {his} breakfast and was the first one out of the door. | And in the morning it was {n} who said, "Hurry up, we will be late!"
"""

TEXTS["neighbour"] = """
$instr,song = trumpet/loud; violin/squeaky; drum/very loud; flute/thin
$cake = apple cake; banana bread; lemon cookies; cinnamon buns; cheese rolls; plum cake
T: the new neighbour | the house next door | who lives next door?
A: new neighbour | {kid}, new neighbour | neighbours, friendship
For a long time, the house next door had been empty. | Nobody had lived in the <green/little/old> house next door for a year. | {n} knew every window of the empty house next door, because {he} looked at it every day.
Then, one {day}, a big truck stopped in the street. | But one <sunny/cloudy/warm> morning, a truck full of boxes stood in front of it.
[[
{n} watched from the window. Out came a table, a lamp, a bed and, last of all, a child's bicycle. | Men carried in chairs and lamps. And then {n} saw something wonderful, a {kid2} with a <skateboard/ball/red backpack>.
"Someone my age!" {he} said to {parent}. "Can I go over?" | "There is a {kid2} next door!" {he} called. "I want to say hello."
"Let us bring something," said {parent}, so they baked {cake}. | {parent} had an idea. "Nobody can cook on moving day. Let us make them some {cake}."

But when {n} stood at the new neighbours' door, {he} felt shy. | With the warm plate in {his} hands, {n} walked up the path. Then {he} stopped. What should {he} say?
{He} put the plate on the step, rang the bell and ran to hide behind the hedge. | {He} rang the bell, left the plate on the mat and hid behind the hedge.
From {his} hiding place, {n} saw the door open. The {kid2} looked left and right, picked up the plate and went back inside. | The {kid2} came out, saw the plate, and looked all around. Then the door closed again.
"Oh no," thought {n}. "Now {he2} does not know it was me." | {n} felt silly. How could they become friends now?

The next day there was a plate on {n}'s own step. | In the morning, {n} nearly stepped on something outside the front door. It was the plate!
It was washed clean, and on it lay a note. "Thank you for the {cake}. I saw your shoes behind the hedge. Come and play! {m}." | It was full of cherries, and there was a note in big letters. "I like {cake}. Do you like cherries? Your neighbour, {m}."
{n} laughed and ran across the grass, and this time {he} did not hide. | {n} read the note twice. Then {he} walked next door and knocked three times.
After that the plate went back and forth all summer, and it was never empty. | Soon there was a little path in the grass between the two houses, and it was {n} and {m} who had made it.
||
The new neighbour was an old {eman} called {elder}, with a long grey coat and a serious face. | Out of the truck climbed {elder}, an old {eman} who did not smile at all.
That same evening, a {song} noise came through the wall. | When {n} went to bed, {he} heard a strange, {song} sound from next door.
It was a {instr}, and it sounded terrible. | Somebody was playing the {instr}, and every second note was wrong.
"I cannot sleep!" said {n}, and pulled the pillow over {his} ears. | {n} put {his} fingers in {his} ears. "Why is {ehe} doing that?"

After three nights of this, {n} rang the neighbour's bell. {parent} came along and stood behind {him}. | The next day, {n} and {parent} went next door together.
"Please, could you play in the daytime?" asked {n} in a small voice. | {n} had planned to be cross. But {elder} looked so worried that {he} only said, "I can hear your music at night."
{elder} turned pink. "I am so sorry! I did not know anyone could hear me. I have only just begun to learn." | "Oh dear," said {elder}. "I am learning it for my grandchild's birthday, and I am slow. I am so sorry."
"I am learning too," said {n}. "I play the piano, and I make lots of mistakes." | "You could practise in the afternoon," said {n}. "I am awake then. I could even help you count."
Then {elder} smiled for the first time, and {ehis} whole face changed. | {elder} laughed, and {ehe} did not look serious any more.

From then on, {n} went over every {day} and clapped the beat while {elder} played. | So every afternoon at four, {elder} played, and {n} clapped the beat.
Little by little, the noise turned into a song. | The wrong notes got fewer and fewer.
And at night it was quiet, and {n} slept very well. | "I thought {ehe} was grumpy," {n} told {parent}, "but {ehe} was only shy, like me." | By the end of the month, {n} hummed the tune all the way to school.
]]
"""

TEXTS["baking"] = """
$cake,fill1 = chocolate cake/cocoa; carrot cake/grated carrots; apple cake/apple slices; lemon cake/lemon juice; banana cake/soft bananas
$for = {gran}'s visit; {gramp}'s birthday; the school fair; {mum}'s birthday
T: the {cake} | salt and sugar | the cake that went wrong | {n} and {m} bake a cake
A: {cake} | baking, {kid}, {kid2} | cake, mistake | baking
{n} and {his} cousin {m} wanted to bake a {cake} for {for}. | "Let us make a {cake} for {for}," said {n} to {his} cousin {m}, who was already tying an apron. | On {wday} morning, {n} and {his} cousin {m} had the kitchen to themselves. They had a plan: a {cake} for {for}.
{dad} sat at the table with {his} newspaper, in case they needed help with the oven. | {dad} turned on the oven for them. "I will only help if you ask me," he said.
(( 
{n} broke the eggs, and only one bit of shell fell in. | {n} measured the flour, and some of it landed on {his} nose.
{m} stirred until {his2} arm was tired. | {m} rubbed butter all over the cake tin.
))
They added {fill1} and a big cup of sugar. | Then came {fill1}, and last of all a whole cup of sugar from the white jar.

[[
While the cake was in the oven, {m} licked the spoon and made a terrible face. | "Can I lick the bowl?" asked {m}. {He2} put a finger in {his2} mouth and coughed.
"It is salty!" {he2} cried. | "Ugh! That was not sugar!" said {m}.
They looked at the white jar. On the back, in small letters, it said "Salt". | There were two white jars on the shelf, and they had taken the wrong one.
"It is your fault," said {n}. "You gave me the jar." "But you poured it in," said {m}. For a moment they were both angry. | {n} felt {his} eyes get hot. "We have spoiled everything," {he} said.
{dad} tasted a crumb and drank a whole glass of water. "I have done the same thing," he said. "Every cook does it once." | "Did you taste it first?" asked {dad} kindly. They shook their heads. "Good cooks always taste," he said. "Do you want to try again?"

So they started again. | They washed the bowl and began from the beginning. | "Then we do it again," said {m}, and {n} nodded.
This time {n} read every label out loud, and {m} tasted everything with a clean spoon. | Now {m} tasted the sugar before it went in. "Sweet!" {he2} said, and they both laughed.
||
They were so busy <singing/talking/playing cards> that they forgot the time. | While the cake was in the oven, they went out to look at a snail on the garden wall. It was a very interesting snail.
Suddenly {n} smelled something. "The cake!" {he} shouted. | Then a dark smell came through the house. "Oh no," whispered {m}.
{dad} pulled it out with thick gloves. It was black on top and as hard as a brick. | The cake was black all over, and a bit of smoke rose from it.
"Nobody will want to eat that," said {m}, and {his2} lip shook. | "It looks like a piece of coal," said {n} sadly.
{dad} opened the window. "There are still four eggs," he said. "And this time, let us set the clock." | "Now we know what happens when you forget," said {dad}. "Shall we see what happens when you remember?"

They mixed a second cake, and it went faster because they knew how. | So they weighed and stirred and poured once more.
This time they sat on the floor in front of the oven and watched the cake rise like a little hill. | {m} held the kitchen clock in {his2} lap and did not take {his2} eyes off it.
]]
The second {cake} came out golden and soft. | When the bell rang, a sweet smell filled the house, and the new cake was perfect. | The new one was a little bit crooked, but it tasted wonderful.

When the time came, everybody asked for a second piece. | The cake was for {for}, and there was not one crumb left at the end.
"What is your secret?" someone asked. {n} and {m} looked at each other. "We practised," they said. | "It is the best cake I ever ate," said {dad}, and he winked at them. | {n} and {m} were proud. They knew that it was really their second cake, but they told only the truth: "It took all day!"
? After that, {n} put a big red sticker on the salt jar, just to be safe. | And the birds in the garden got the crumbs from the bowl.
"""
TEXTS["baking"] = TEXTS["baking"].replace("with {his} newspaper", "with a newspaper").replace("\n? After that, {n} put a big red sticker on the salt jar, just to be safe. | And the birds in the garden got the crumbs from the bowl.", "")

TEXTS["bike"] = """
$col = red; blue; green; yellow; silver
$pl = the park; the quiet street behind the house; the empty schoolyard; the path by the river
T: {n} learns to ride | the {col} bike | two wheels | don't let go!
A: bike | {kid}, bike | learning to ride a bike | {kid}, {col} bike
{n} got a {col} bike from {his} cousin, who had grown too tall for it. | In the shed stood a {col} bike, and now it belonged to {n}. | For {his} birthday, {n} was given a {col} bike with a shiny bell.
There was only one problem. {He} could not ride it. | All {his} friends could ride already. {n} could not. | It had two wheels, and two wheels are much harder than four.
On {wday}, {parent} took {him} to {pl}. | "Let us practise," said {parent}, and they pushed the bike to {pl}.

"I will hold the seat," said {parent}. "You look straight ahead." | {parent} held the back of the seat, and {n} put {his} feet on the pedals.
The bike rolled, shook, turned to the left and fell into <the grass/a bush>. | {n} went three metres, looked down at {his} feet and tipped over. | Off they went. Then the wheel turned the wrong way, and {n} landed on {his} bottom.
{He} tried again and fell again. {He} tried five times. | {n} got up and tried once more, but it was no better. After the fourth fall, {he} kicked a stone. | {His} knee was scratched, and {his} hands were dirty.
"I can't do it!" {he} said. "I will never learn." | "This bike does not like me," {he} said, and sat down on the ground. | "It is too hard," said {n}, and a tear ran down {his} cheek.

[[
{parent} sat down too. "Do you know how many times you fell when you learned to walk?" {phe} asked. | {parent} wiped the tear away. "When you were one year old, you fell down all day long," {phe} said.
"How many times?" asked {n}. "I stopped counting at a hundred. But you always got up, because you wanted to reach the cat." | "And then?" {n} asked. "Then one day you walked across the kitchen to get a biscuit. You had forgotten to be afraid."
{n} had to smile. {He} looked for something that {he} wanted to reach. At the end of the path stood a <bench/tall tree/fountain>. | So {n} chose something to ride to, a big tree at the far end, and looked only at that.
||
Just then {m}, a {kid2} from {his} class, came by on {his2} own bike. | A {kid2} called {m} stopped beside them. {n} knew {m} from school, and {he} quickly dried {his} face.
"I fell into a pond when I was learning," said {m}. "There was a frog in my shoe." | "It took me two whole weeks," said {m}. "And I cried every day."
{n} looked up in surprise. "Really?" "Really," said {m}. "Don't look at the wheel. Look at me. I will ride in front." | "Push hard and look far away," {m} said. "I'll go ahead, and you follow me."
||
They went home, and {n} did not want to talk about it. But in the night, {he} dreamed that {he} was riding. | "We can stop for today," said {parent}. That evening, {n} watched the bike from {his} window. It looked lonely.
The next day after breakfast, {he} pushed it out {self}. "One more try," {he} said. | In the morning {he} said, "I want to try again, but slowly."
{parent} took the pedals off with a tool. "First you only push with your feet and glide," {phe} said. So {n} pushed and glided, up and down, until it felt easy. Then the pedals went back on. | {parent} lowered the seat, so that {n} could put both feet on the ground. That felt much safer.
]]

{n} pushed off. The wheels turned, the wind blew in {his} face, and the bike stayed up. | {n} took a deep breath and pedalled. One turn, two turns, three turns, and the bike did not fall!
"Don't let go!" {he} called. "I let go a long time ago!" called {parent} from far behind. | {He} heard {parent} clapping, and the clapping was far away. {n} was riding alone! | "Are you still holding me?" {n} shouted. There was no answer, because {parent} was standing way back, waving both arms.
? {He} was so surprised that {he} forgot to use the brakes, and rolled gently into a hedge. It did not hurt at all. | {n} rang the bell again and again.

That evening {he} had two scratches, one bruise and a very big smile. | {n} went to bed tired and happy, with a bandage on {his} knee like a medal. | "I fell nine times," {he} told everyone at supper, "and I got up ten times."
? The {col} bike stood in the hall, ready for the morning. | And the next week, {n} rode to school.
"""

TEXTS["vase"] = """
$ves,own = blue vase/{gran}; glass bowl/{mum}; painted plate/{gran}; yellow teapot/{mum}
$game = ball; football; pirates; knights
T: the broken {ves} | telling the truth | what happened to the {ves}? | {n} tells the truth
A: broken {ves} | {kid}, broken {ves} | telling the truth
The rule in {n}'s house was simple: no running in the living room. | "Not in the living room," {mum} always said. {n} knew that very well.
But it was raining outside, and {n} wanted to play {game}. | But on {day} the garden was wet, and {he} was bored. So {he} played {game} on the carpet.
{He} jumped over the sofa, and {his} elbow hit the shelf. | {He} made one big jump, and the shelf began to shake.
Crash! The {ves} lay on the floor in five pieces. | There was a loud crash. {He} turned around and saw the {ves}, broken in two. | Down came the {ves}, and it broke.
It had belonged to the family for many years, and {own} loved it. | It was {own}'s favourite thing, and {n} felt cold all over.

[[
Quickly {he} pushed the pieces under the sofa. | {n} hid the pieces behind the curtain and sat down with a book.
When {mum} came in, she looked at the shelf. "Where is the {ves}?" she asked. "I don't know," said {n}. | At supper, {mum} asked about the empty place on the shelf. "Maybe the cat was up there," said {n}.
The words felt heavy, like stones. | As soon as {he} had said it, {his} stomach began to hurt.
At night {he} could not sleep. {He} turned to the left and to the right, and the lie was always there. | {He} could not enjoy {his} dessert, and in bed {he} lay awake for a long time.
At last {he} got up and went down the stairs to {mum} in bare feet. | In the end {he} climbed out of bed and found {mum} in the kitchen.
"It was me," said {n}, and then {he} cried. "I broke it, and I told a lie." | "I have to tell you something," {he} said. "I broke the {ves}, and I hid it."
||
"We can say the wind did it," said {m}, {his} {bro2}, who had seen it all. | {His} {bro2} {m} came running in. "Hide it!" whispered {m}. "Nobody will know."
{n} thought about it. It would be so easy. | For a moment, {n} wanted to do just that.
Then {he} thought of {own}'s face. "No," {he} said. "I would know." | But {he} shook {his} head. "If I hide it, I have to hide all day long," {he} said.
{He} picked up the pieces one by one and put them in a box. Then {he} carried the box to {mum}, and {his} knees were shaking. | With a dry mouth, {n} went to find {mum}. {m} came along and held {his} hand.
"I was jumping in the living room," {he} said. "I broke it, and I am very sorry." | "This is my fault," said {n}, and held out the pieces.
]]

{mum} was quiet for a moment. | {mum} looked at {him} for a long time. | {mum} sighed and sat down.
"I am sad about the {ves}," she said. "But I am glad that you told me. That was harder than jumping." | "Things can break," she said. "It matters more to me that I can trust you." | "Thank you for telling the truth," she said at last, and she took {him} in her arms.
? "Are you angry?" asked {n}. "A little," said {mum}. "It will be gone by tomorrow." | {n} felt so light that {he} could have floated.

[[
The next day they sat at the table with a tube of glue. | On {wday}, they glued the pieces together, slowly and carefully.
You could still see the cracks, like thin rivers. | One tiny piece was missing, and so there was a little hole near the top.
"Now it has a story," said {mum}, and she put it back on the shelf. | "It cannot hold water any more," said {mum}, "but it can hold dried flowers." {n} picked the nicest ones.
||
The {ves} could not be saved. So {n} took {his} pocket money and made a new one out of clay with {dad}. | It was too broken to fix. But {n} saved {his} coins for six weeks and bought a small one at the market.
It was a bit crooked, but it got the best place on the shelf. | It was not as fine as the old one, but everyone said it was beautiful.
]]
And {n} did {his} jumping in the garden, even in the rain. | After that, {n} played in the hall or in the yard, and never again near that shelf. | Whenever {n} looked at it, {he} remembered how good the truth had felt.
"""

TEXTS["power_cut"] = """
$fun = shadow animals on the wall; a shadow theatre; shadow shapes with their hands
T: the evening without light | when the lights went out | the dark evening | candles and shadows
A: power cut | storm, family | dark evening, {kid} | candles, {kid}, {bro2}
{n} was <building a tower/doing homework/watching a cartoon>, and {his} {bro2} {m} was drawing, when the lights went out. | Rain beat against the windows, and the wind shook the trees. {n} and {his} {bro2} {m} had just finished supper. Suddenly, click, the whole house was dark. | It was a stormy {day} evening. {n} and {his} {bro2} {m} were at home with {mum} and {dad} when every lamp went out at once.
"Who did that?" called {m}. "Not me!" said {n}. | "Hey!" shouted {n}. "I can't see anything!" | The fridge stopped humming. It was so quiet that you could hear the clock.
"It is the storm," said {dad} from somewhere. "The power is out in the whole street." | {mum} looked out of the window. All the other houses were dark too.

{m} did not like the dark and began to sniff. | {m}, who was the younger one, grabbed {n}'s sleeve. | "I don't like this," whispered {m}. {He2} was only four years old.
{dad} found a torch, but it gave one weak blink and died. | They looked for the torch. When they found it at last, the batteries were empty.
"Well," said {mum}, "then we will do it like in the old days." She felt her way to the cupboard and came back with three candles. | "I know where the candles are," said {n}. {He} walked slowly, with one hand on the wall, and found them in the kitchen drawer. {mum} lit them one by one.
A warm, yellow light filled the room. | The little flames danced, and the room looked like a cave with gold in it.

[[
Then {n} saw a big dark shape on the wall. It was only {dad}'s hand, but it looked like a dog. | {m} pointed at the wall in alarm, but it was only the shadow of {n}'s hair.
That gave {n} an idea. Soon they were all making {fun}. | "Look, I can make a bird!" said {n}. And so they began to make {fun}.
{dad} made a crocodile, {mum} made a swan, and {m} made something that nobody could guess. "It is a potato," said {m}. | {m} made a rabbit with long ears, and the rabbit ate {dad}'s nose. They laughed until they had to hold their sides.
||
They built a tent out of two chairs and a blanket and all crept inside. | {mum} spread a blanket on the floor, and they had a picnic with bread, cheese and cold beans.
"Tell us about when you were little," {n} said to {dad}. | "Let us tell stories," said {n}. "Each of us says one sentence, and then it is the next one's turn."
{dad} told them how he had once put a frog in his teacher's hat. They had never heard that story before. | {mum} told them how she had once got stuck in an apple tree, and how the fire engine came. {m} wanted to hear it three times.
]]
? {m} had quite forgotten to be afraid. | Outside the storm went on, but inside nobody listened to it.

Then, click, the lights came back. | An hour later the lamps went on again, very bright and white.
Everyone blinked. The fridge began to hum. "Oh," said {m} in a sad voice. | "Hurray!" said {dad}. But the children did not look happy.
[[
"Can we turn it off again?" asked {n}. | "Too bad," said {n}. "It was just getting good."
{mum} smiled, got up and pressed the switch. They sat by candle light until it was time for bed. | {dad} laughed and put out the lamp. "Ten more minutes," he said. It became a whole hour.
||
{n} thought for a moment. "We could have a dark evening now and then," {he} said. | "Let us do this again," said {m}, "even without a storm."
And that is what they did. Every {wday} they switched off all the lamps, and it was the best evening of all. | So they made it a family rule. On the first {wday} of each month, the lights stayed off, and the stories came out.
]]
"""

TEXTS["seed"] = """
$pl,fr = sunflower/flower; bean/bean plant; corn/corn plant; tomato/tomato plant; pea/pea plant
$pot = an old cup; a clay pot; a yogurt pot; a tin can; a blue bucket
T: the slow seed | {n} plants a seed | waiting for the {pl} | a seed in a pot
A: seed | {kid}, seed | {pl} seed, patience | {kid}, garden, {gramp}
{gramp} put a small seed in {n}'s hand. "Guess what is inside," he said. | {n} found a small seed in {gramp}'s jacket pocket. "What is this?" {he} asked. | At school, every child was given one seed. {n} carried {his} home to {gramp}, who knew all about plants.
"A whole {pl} is sleeping in there," said {gramp}. | "That is a {pl}," {gramp} told {him}. "It just does not know it yet."
They filled {pot} with earth, and {n} pushed the seed in with one finger. | {n} took {pot}, filled it with soft dark earth and laid the seed inside.
{He} gave it water and put it on the <window sill/sunny step/balcony>. | Then {he} watered it and stood it in the sun.

{n} sat down in front of it and waited. Nothing happened. | After lunch {he} went to look. There was only earth. | "When will it come?" {he} asked after five minutes.
"It needs time," said {gramp}. | {gramp} laughed. "A seed has no clock," he said.
The next day there was nothing, and the day after that there was nothing too. | {n} looked on Monday, on Tuesday and on Wednesday. The earth stayed brown and flat.

[[
"Maybe it is thirsty," {n} thought, and {he} gave it a whole jug of water. Then {he} gave it another one. | {n} wanted to help, so {he} watered it in the morning, at noon and at night.
Soon the pot looked like a puddle. | The water stood on top like a small lake.
"Oh dear," said {gramp}. "Too much water is as bad as too little." He showed {n} how to make a hole in the bottom and let it drain. | When {gramp} saw it, he poured the water off. "You are kind, but a seed cannot swim," he said.
From then on, {n} touched the earth first. {He} watered only when it felt dry. | "Put your finger in," said {gramp}. "If it is dry, give it a drink. If it is wet, give it a rest." {n} did as he said.
||
On the fifth day, {n} could not stand it any longer. {He} dug the seed up to see what it was doing. | "I will just have a quick look," thought {n}, and {he} scratched the earth away with a spoon.
It was still a seed, but a tiny white thread came out of one side. | There it was, and it had a little white tail.
"That is the root!" said {gramp}. "Put it back gently. It does not like to be woken up." | {n} ran to {gramp}. "That is its first root," he said. "Cover it up again, quickly, and let it work in peace."
{n} felt sorry and covered the seed like a child in bed. "I won't do it again," {he} whispered. | Very carefully, {n} tucked it in. After that, {he} sang to it instead of digging.
]]
? To make the time go faster, {n} painted the pot with dots and stripes. | {gramp} taught {him} a card game while they waited.

Then, one morning, there was a green dot in the pot. | And one day, when {n} was hardly thinking about it, something green looked out of the earth.
"It is here!" {he} shouted, and the whole house came to look. | {n} ran through the house in {his} pyjamas. "Come and see, everybody!"
The green dot became a stem, and the stem got two leaves, then four. | Every day it grew a bit, and {n} marked its height on a stick.
[[
By the end of summer, the {fr} was taller than {n}. | At the end of the summer, {n} had to stand on a chair to see the top of the {fr}.
In autumn, {gramp} opened his hand. In it lay a dozen new seeds. "Guess what is inside," he said, and {n} knew. | {n} saved the new seeds in a paper bag and gave one to each of {his} friends. "You have to wait," {he} told them. "But it is worth it."
||
They planted it out in the garden, next to {gramp}'s chair. | When the pot grew too small, they moved the {fr} to the garden.
"You did that," said {gramp}. "The seed did it," said {n}. "I only waited." "Waiting is the hardest part," said {gramp}. | {n} was proud. {He} had learned to wait, and that had grown too.
]]
"""

TEXTS["letter"] = """
$far = on an island; in the mountains; in another country; by the sea, a long way off
$pic = a drawing of the cat; a picture of the whole family; a pressed flower; a leaf from the garden; a lock of {his} hair
T: a letter to {gran} | {n}'s letter | the letter that took so long | dear {gran}
A: letter, grandmother | letter | {kid}, grandmother
{n}'s {granl} lived {far}. | {n} missed {gran}, who lived {far}. | "I wish {gran} were here," said {n}. But {gran} lived {far}.
They talked on the telephone every {wday}, but it was never long enough. | On the telephone, {n} always forgot the things {he} wanted to say.
"Why don't you write her a letter?" said {dad}. "A letter can be kept." | "Write it down," said {mum}. "{gran} loves letters."

{n} sat down with a sharp pencil and wrote, "Dear {gran}." Then {he} stopped. | So {n} took a clean sheet of paper. "Dear {gran}," {he} wrote, and then {he} could not think of anything.
"I don't know what to say," {he} said. "Tell her what you see," said {dad}. | "Nothing happens here," {n} said. "Nothing is always something," said {mum}. "Look around."
{n} looked around and began to write. | {n} chewed on the pencil, and then {he} began.
((
{n} wrote about the snail on the kitchen window. | {n} wrote that the soup had been too hot at lunch.
{He} wrote that {he} had lost a tooth and found a coin. | {He} told {gran} about the new {kid2} at school, who could whistle with two fingers.
{He} told {gran} that the apple tree was full of bees. | {He} told her that {he} could now tie {his} own shoes.
))
In the end, the page was full, and {he} added {pic}. | Before {he} knew it, both sides were full. Into the envelope {he} put {pic} as well.

[[
They took it to the post box, and {n} dropped it in with a happy heart. Then {he} remembered something. "The stamp! I forgot the stamp!" | Plop, the letter fell into the yellow box. At that moment {n} looked at {dad}. "Did we put a stamp on it?" They had not.
{n} was close to tears. The letter was locked inside. | {n} tried to reach in, but {his} arm was too short.
So they waited until the postwoman came to empty the box. She listened to the story and smiled. | They sat on the wall until the postman came with his big key. "Forgot the stamp?" he said. "That happens every day."
{n} stuck the stamp on, nice and straight, and the letter went into the big bag. | {n} quickly ran to the shop for a stamp, and then the letter could go.
||
{dad} took {him} to the post box, and in went the letter. Then the waiting began. {n} looked into the letter box every day. | The letter went off in the postman's bag. Now {n} had to wait, and every day {he} asked, "Is there any post for me?"
One week went by, and there was no answer. After two weeks, {n} was sure that the letter was lost. | Ten days passed. "She did not like it," said {n} sadly.
"A letter has to travel on a truck, a train and a ship," said {dad}. "Give it time." | "Good things travel slowly," said {mum}.
]]

At last a thick envelope came, with {n}'s own name on it. | Then, one {day}, there was an envelope in the box, and it was for {n}. | One morning the post brought a letter with round, careful writing. It was from {gran}!
"My dear {n}," it said, "I have read your letter seven times. When I read about your day, I felt that I was sitting next to you." | "Dear {n}," wrote {gran}, "your letter is on my kitchen wall. I showed it to everyone in the village."
? She had put in a recipe for honey cookies, and they made them that very day. | There was also a photo of her hens, with all their names on the back.
[[
{n} put the letter in a special box under {his} bed. Then {he} sharpened {his} pencil. "Dear {gran}," {he} began, and this time {he} knew just what to say. | {n} read it again and again, and then {he} sat down to write back at once.
||
At the bottom it said, "I will come in spring." {n} danced through the kitchen with the letter in {his} hand. | And on the last line stood the best thing of all: "I have bought a ticket. See you soon!"
Until then, {he} wrote to her every week, and {gran} always wrote back. | {n} hung a calendar on the wall and crossed off the days, one by one.
]]
"""

TEXTS["swing"] = """
$tree = old oak; apple tree; big chestnut; tall pine
T: the swing | one swing for two | ten pushes each | sharing the swing
A: swing | {kid}, {kid2}, swing | sharing
A rope swing hung from the {tree} in the park. There was only one, and everyone wanted it. | In the park stood a {tree}, and on its strongest branch hung a swing. | The best thing in the park was the swing under the {tree}.
On {wday} morning, {n} ran to it and got there first. | One warm afternoon, {n} was the first to reach it.
{He} swung up and down and saw the roofs, the river and the sky. | Up {he} went, with {his} toes in the leaves.

Then {m} came. {m} waited for a while, hopping from one foot to the other. "Can I have a turn?" asked {m} at last. | After some time, {m} came along and stood beside the tree. {n} knew {m} from school. "May I swing too?" asked {m}. | "Can I have a turn?" asked {m}, who had just come through the gate.
"In a minute," said {n}. But the minute became five, and the five became ten. | "Soon," said {n}, and went on swinging. But soon did not come.
"That is not fair!" cried {m}, and took hold of the rope. | At last {m} lost patience and grabbed the seat.
The swing turned in a circle. {n} held on, {m} held on, and both of them landed in the sand. | They pulled to the left and pulled to the right, until they both fell over.
"I was here first!" said {n}. "You had it all morning!" said {m}. | "It is mine!" they shouted at the same time. Of course it belonged to neither of them.

[[
They sat down with their backs to each other. The swing hung there, empty, and moved a little in the wind. | Both of them were so cross that nobody was swinging at all. The empty swing moved in the wind.
Then a very small child came, climbed on the seat and looked at them. "Push?" asked the child. | A little girl with curly hair climbed up. "Push me, please," she said to both of them.
{n} pushed from one side, and {m} pushed from the other. The child laughed so much that they had to laugh too. | So {n} got up, and {m} got up, and they pushed together. It was hard to stay angry while doing that.
When the child had gone home, {n} held the seat still. "You go now," {he} said. "I will push you ten times." | Afterwards {n} looked at the ground. "I should have let you have a turn," {he} said. "Get on. I will push."
"And then I push you ten times," said {m}. | "Then it will be your turn again," said {m}. "We can count."
||
An old {eman} on a bench had watched it all. It was {elder}, who came every day to feed the birds. | {elder}, an old {eman} from the neighbourhood, looked up from {ehis} book on the bench.
"When I was your age," said {elder}, "we had one swing for nine children. Do you know what we did?" | "May I tell you a trick?" asked {elder}. "We used it when I was small."
"What?" asked {n}, though {he} was still cross. "We sang a song. When the song was over, it was the next one's turn." | They nodded, rubbing their knees. "Use a song as your clock. One song, one turn."
{n} and {m} tried it. {m} swung while {n} sang, and {n} chose a short song. Then {n} swung while {m} sang, and {m} chose an even shorter one. | They tried it at once. At first they both sang very fast. Then they saw how silly that was, and sang slowly.
They giggled so hard that they could hardly sing. | Soon {elder} was singing too, in a deep and funny voice.
]]

It was much better than before, because now there was someone to push. | {n} found out that with a push you fly twice as high.
? By noon there were six children in line, and nobody was shouting. | They even found a way to swing together, one sitting and one standing.
[[
When {n} went home, {parent} asked, "Did you have the swing all to yourself?" "No, it was much better," said {n}. | "Same time tomorrow?" asked {m}. "Same time tomorrow," said {n}. "You can go first."
||
From that day on, whoever came first to the park waited for the other one. | The next morning {m} was there first. {He2} jumped down as soon as {n} came. "Your turn," said {m}.
]]
"""

TEXTS["tooth"] = """
$food = an apple; a carrot; a crusty roll; a corn cob; a pear
T: the loose tooth | the tooth that would not come out | {n}'s wobbly tooth
A: loose tooth | {kid}, loose tooth | tooth
{n} had a loose tooth. It was at the front, and it wobbled. | "My tooth is moving!" said {n} one morning in front of the mirror. | All the children in {n}'s class had lost a tooth, all but {n}. Then, on {day}, one of {his} teeth began to wobble.
{He} pushed it with {his} tongue, forward and back, all day long. | {He} could move it with one finger. It felt strange and funny.
But {he} was also a little afraid. "Will it hurt?" {he} asked. | "Will there be a lot of blood?" {he} asked. "Just a drop," said {mum}.

((
{dad} wanted to tie a thread to it and shut the door. "No, thank you!" said {n}, and held {his} mouth closed. | {dad} offered to pull it. {n} ran to the other end of the garden.
"Jump up and down," said {m}, {his} {bro2}. {n} jumped until the neighbours knocked on the wall, but the tooth stayed in. | {His} {bro2} {m} said that {he} should eat {food}. {n} tried it, but {he} only dared to chew on the other side.
))
"It will come out when it is ready," said {mum}. | {mum} told them all to leave the tooth in peace. | After that, {n} ate only soup and soft bread.
? At night {n} dreamed of a tooth as big as a house. | Three days went by, and the tooth hung on by a thread.

[[
On {wday}, the whole family played cards. {n} got the best card of all and laughed with {his} mouth wide open. Something small fell on the table. | Then, on {wday}, {m} told a joke about a <cow/goose/camel> on a bus. {n} laughed so hard that something flew out of {his} mouth.
"What is that?" asked {dad}. Everyone looked. It was the tooth! | It rolled away and stopped in front of {dad}. "My tooth!" shouted {n}.
"But I did not feel a thing!" said {n}. | {n} put a finger in the gap. It did not hurt at all.
||
The next day at school, {n} bit into {food} without thinking. There was a tiny crack. | On the way home from school, {n} was hungry and forgot all about the tooth. {He} took a big bite of {food}.
When {he} looked, there was no tooth in {his} mouth. There was no tooth in {his} hand. "I have swallowed it!" {he} cried. | Suddenly there was a hole where the tooth had been. But where was the tooth?
{n} was very sad. {He} had wanted to keep it. | "Now I have nothing to show," {he} said at home, and {his} chin shook.
{m} looked at what was left of {food}. "What is this white thing?" {he2} asked. There it was, stuck fast! | {m} had an idea. {He2} took the rest of the snack apart, piece by piece, and there was the tooth!
]]

{n} ran to the mirror. {He} had a gap just like {his} friends. | In the mirror, a new {n} grinned back, with a little window in the smile.
That night {he} put the tooth <under {his} pillow/in a tiny box/in a matchbox with cotton>. | {mum} washed the tooth and gave {him} a tiny box to keep it in.
[[
In the morning there was a shiny coin next to {his} bed. | When {he} woke up, {he} found a coin on {his} pillow.
But the best thing was that {he} could now whistle through the gap, and {he} did, all through breakfast. | {n} bought two plums with it, one for {self} and one for {m}, who had helped so much.
||
"Were you afraid?" asked a small child at school, who had a loose tooth too. "A bit," said {n}. "But it was over before I knew it." | Later, when {m} had a loose tooth as well, {n} knew what to say. "Just wait and laugh a lot," {he} said.
And {n} showed the gap to everybody who wanted to see it, and to some who did not. | Most things, {n} thought, are worse before they happen than when they do.
]]
"""

TEXTS["library_book"] = """
$topic = whales; knights; volcanoes; trains; owls; stars; bridges
$harm = jam; cocoa; rain; paint
T: the library book | the book about {topic} | {n} and the library book
A: library book | {kid}, library | book about {topic} | library, honesty
{n} loved the library. It smelled of paper, and nobody ever said "Hurry up." | Every {day}, {n} went to the library with {parent}. | The town library had red chairs and a thousand books, and {n} wanted to read them all.
This time {he} found a big book about {topic}. | One day {he} took home a book about {topic}. It was the best book {he} had ever seen.
{He} read it on the bus, in bed and at breakfast. | {He} looked at the pictures so often that {he} knew them by heart.

[[
Then came the accident. {n} was reading at the table, and {his} elbow hit a cup. There was {harm2} all over page twelve. | "Don't eat while you read," {parent} always said. But {n} did, and a big brown drop fell right on the best picture.
{He} wiped it with {his} sleeve, and that made it worse. | {He} tried to wash it off, and the page went wavy.
"They will never let me borrow a book again," thought {n}. | {n} shut the book quickly. {His} heart was beating fast.
{He} thought of pushing it through the slot at night, when nobody could see {him}. But that did not feel right. | For two days {he} hid it under the bed. But {he} could not enjoy any other book.

On the day it was due, {n} went up to the desk. The librarian, {teacher}, looked over {this} glasses. | The librarian was called {teacher}. {n} put the book in front of {thim} and opened it at the page.
"I spilled something," {he} said. "It was an accident. I can pay with my pocket money." | "I did this," said {n}. "I am sorry. What can I do?"
{teacher} looked at the page. "Do you know how many people hide such a thing?" {the} said. "Almost all of them." | "Hmm," said {teacher}. "Thank you for showing me. You would be surprised how often I find such spots myself, and nobody says a word."
"You could help me in our book hospital," {the} went on. And {the} took {n} to a back room with glue, tape and brushes. | "I don't want your money," {the} said. "But I could use two careful hands on Saturday. We mend books here."
That {wday2}, {n} glued torn pages and taped old covers. {He} worked so well that {teacher} let {him} come again. | So {n} learned how to mend a book, page by page, and {he} liked it so much that {he} asked to come back.
At the end, {teacher} gave {him} a new card. On it was written: "{n}, Book Doctor." | Now, when {he} reads, the cup stands at the other end of the table.
||
When it was time to bring it back, the book was gone. | But on the day it was due, the book was not on {his} shelf.
{n} looked under the bed, in {his} school bag and behind the sofa. | {He} emptied {his} bag. {He} moved the pillows. {He} even looked in the bath.
"Think," said {parent}. "Where did you read it last?" "Everywhere," said {n}. | "Somebody took it!" {n} said, and looked at {his} {bro2} {m}. "I did not!" said {m}, and {he2} looked hurt.
$where = on the bus; at the baker's shop; in the park

Then {he} remembered. {He} had been reading {where}, and {he} had put the book down for a moment. | In the night it came to {him}. {He} had left it {where}!
They went back the next morning, but there was no book. | As soon as {he} could, {n} went there to ask. Nobody had seen it.
With a heavy heart, {n} walked to the library to tell the truth. | So {n} had to go and tell {teacher}, the librarian. Every step felt long.
"I lost it," {he} said. "I am very sorry." {teacher} smiled and reached under the desk. | Before {he} could finish, {teacher} put something on the desk. It was the book about {topic}!
"A kind person found it {where} and brought it in," {the} said. "Our stamp is on the first page, you see." | "It came home before you did," {the} said. "Someone found it {where} and saw our stamp."
{n} was so glad that {he} hugged the book. | {n} let out a long breath.
"May I borrow it again?" {he} asked. "Of course," said {teacher}. "But where will you keep it?" {n} had thought of that. From then on, every library book had its own place next to {his} bed. | {n} sewed a bright ribbon into a bag, and after that {his} library books always travelled in it.
]]
"""
TEXTS["library_book"] = TEXTS["library_book"].replace("{harm2}", "cocoa").replace("$harm = jam; cocoa; rain; paint\n", "").replace("That {wday2}", "That Saturday").replace('"Somebody took it!" {n} said, and looked at {his} {bro2} {m}. "I did not!" said {m}, and {he2} looked hurt.', '"Somebody must have taken it!" said {n}. But who would want to do that?').replace("{teacher}, the librarian.", "the librarian, whose name was {teacher}.").replace("{teacher} smiled and reached under the desk. |", "{teacher}, the librarian, smiled and reached under the desk. |").replace("Before {he} could finish, {teacher} put", "Before {he} could say much, the librarian, {teacher}, put")
TEXTS["library_book"] = TEXTS["library_book"].replace("So {n} had to go and tell the librarian, whose name was {teacher}.", "So {n} had to go to the library and say so.")

TEXTS["play"] = """
$role,cost = tree/brown sack; moon/silver paper; sheep/woolly blanket; snail/big round basket; cloud/white sheet
$play = The Lost King; The Garden of Colours; The Three Wishes; The Long Winter
T: the school play | {n} the {role} | a very good {role} | the smallest part
A: school play | {kid}, school play | play, {role}
{n}'s class was going to put on a play called "{play}". Their teacher, {teacher}, had written it. | "This year our play is called '{play}'," said {teacher}, the teacher. Everybody cheered. | In spring, {n}'s class did a play for all the parents. {teacher}, the teacher, had chosen "{play}".
{n} wanted to be the <king/queen/star> of the show, but {m} got the big part. {n} was a {role}. | {teacher} gave out the parts. {m} got the longest one. {n} was a {role}. | All the children drew cards from a hat. {m} drew the leading part, and {n} drew the {role}.
"A {role} has nothing to do," {he} told {parent} at home. "I only say one line." | "A {role}!" {n} said at supper. "I have one line, and the rest of the time I just stand there."
"Then say it so that nobody forgets it," said {parent}. | {parent} did not laugh. "A play needs everyone," {phe} said. "Be the best {role} there ever was."

So {n} practised. {He} stood in front of the mirror and tried to feel like a {role}. | {n} made {his} own costume out of a {cost}. | For two weeks {he} practised {his} one line in the bath, on the stairs and in the garden.
{He} also listened to all the others, because {he} had so much time. Soon {he} knew every word of the play. | While the others practised, {n} sat and listened, until {he} could say the whole play by heart.

On the big evening, the hall was full. | Then the evening came. Parents sat in long rows, and the curtain was red.
{n}'s knees felt soft. {He} saw {parent} in the third row and felt better. | Behind the curtain, everyone was whispering. {n}'s hands were cold.
[[
Everything went well until the middle. Then {m} opened {his2} mouth, and nothing came out. | Halfway through, {m} suddenly stopped. {He2} had forgotten the words.
It was very quiet. Somebody coughed. {m} turned red. | The silence got longer and longer. {m} looked as if {he2} wanted to run away.
{n} was standing right behind {m}. Without moving {his} lips too much, {he} whispered the next words. | {n} knew what came next. "Who will come with me over the hills?" {he} whispered from behind.
{m} heard it, took a breath and went on. Nobody in the hall had noticed. | {m}'s face lit up, and the words came back, one after the other.
||
Then, in the second part, a piece of the painted wall began to lean. | In the middle of the play, the painted castle started to tip over.
{m} was standing just in front of it and did not see it. | It would fall right on {m}, who was saying {his2} longest speech.
{n} took two slow, quiet steps to the side and leaned against it. | {n} moved over, quietly and slowly, and held it up with {his} back.
{He} stood like that until the end, and everybody thought it was part of the play. | For ten long minutes {he} held that wall, and {his} legs shook, but {he} did not move.
]]
Then it was time for {his} own line, and {n} said it loud and clear. | When {his} one line came, {n} spoke it so well that people clapped.

After the play, {m} ran up and hugged {n}. "You saved me!" {he2} said. | When the curtain fell, {m} took {n} by the hand and pulled {him} to the front. "This one saved the play!" said {m}. | "Thank you," said {m} behind the curtain. "I will never forget that."
{teacher} shook {n}'s hand. "There are no small parts," {the} said. | "I saw what you did," {teacher} said quietly, and smiled.
"So, how was it to be a {role}?" asked {parent} on the way home. "Important," said {n}. | At home, {n} hung the costume over {his} bed. {He} was prouder of it than of any crown. | "Next year," said {n} on the way home, "I want to be a {role} again."
"""

TEXTS["smallest"] = """
$game,place = football/goal; handball/goal
$row = the smallest child in the team; smaller than all the others
T: the smallest in the team | small but quick | {n} plays too | little {n}
A: {kid}, football team | small {kid} | being small, team
{n} was the smallest child in the football team. {His} shirt hung down to {his} knees. | When the football team stood in a row, {n} was always at the very end. {He} was the smallest. | "Are you sure you are old enough?" people asked {n}. {He} was old enough. {He} was only small.
The others ran faster and kicked harder. | When the big ones ran past, {n} felt the wind on {his} face.
In most games, {he} sat on the bench beside {teacher}, the trainer, and held the water bottles. | The trainer, {teacher}, often let {him} play only for the last five minutes.

"I want to be tall," {he} told {gramp}. "Then I could help the team." | At home {n} stood against the door frame. {gramp} made a mark. It was where it had been last month.
"You cannot choose how tall you are," said {gramp}. "But you can choose what to practise." | {gramp} scratched his chin. "A mouse does not win by being big," he said. "It wins by being quick."
[[
So every evening, {n} ran around buckets in the yard with the ball at {his} feet, left and right, left and right. | {gramp} put ten flower pots in the yard. {n} had to run between them with the ball, and not touch one.
At first {he} knocked over all of them. After a week, it was only two. | On the first day {he} fell over three of them. By the end of the month, {he} could do it with {his} eyes half closed.
||
So {n} practised passing. {He} kicked the ball against the garden wall a hundred times a day. | Every afternoon, {gramp} sat on a chair with a basket in front of him, and {n} had to kick the ball into it.
In the beginning, the ball went everywhere, once even through the kitchen window. Luckily, the window was open. | At first {he} hit the chair, the fence and {gramp}'s hat. Later {he} hit the basket every time.
]]

Then came the big game on {wday}. With ten minutes to go, it was one to one. | On {wday} they played against the team from the next town. All of them seemed to be giants.
? It had rained, and the field was wet. | {gramp} stood at the side with a big umbrella.
Then {m} hurt {his2} foot and had to sit down. {teacher} looked along the bench. Only {n} was left. | {m}, the best player, got a cramp and limped off. "{n}, it is your turn," said {teacher}.
"Oh no," someone said. {n} heard it, and {his} ears grew hot. | The other team grinned when {he} ran out. "Is that all you have?" one of them asked.

[[
{n} got the ball. Two tall players came at {him} from both sides. {He} thought of the yard and slipped between them like a mouse. | The ball rolled to {his} feet. In front of {him} stood a wall of long legs, and {n} simply ran through the gaps.
{He} could have tried to score, but {he} saw that {his} friend {o} was free. {He} passed, {o} kicked, and the ball was in the net! | In front of the goal, {he} saw {his} friend {o} on the other side, all alone. One pass, one kick, goal!
||
The first time, {he} lost the ball at once. The second time, {he} slipped in the mud. | At first everything went wrong. {He} fell down twice, and once {he} ran into {teacher}.
But {n} got up each time. And in the last minute, the ball came rolling, and {he} did not think. {He} just kicked as {he} had done so often at home. | "Keep going!" called {gramp}. So {n} kept going, and in the very last minute, the ball lay right in front of {his} foot.
It rolled along the ground, low and slow, between the long legs of the goalkeeper. Goal! | The goalkeeper jumped high, but the ball stayed low. It went in under the keeper's arms.
]]
Everyone shouted. {m} forgot the sore foot and hopped in a circle. | The whole team ran to {n} and lifted {him} up. For once {he} was the tallest of all.
[[
"How did you do that?" asked {teacher}. "I am small," said {n}. "It helps." | After that, {n} did not sit on the bench so much. {He} was still the smallest, but {he} did not mind.
||
That evening {gramp} made a new mark on the door frame. It was only a tiny bit higher. "You have grown," he said all the same, and {n} knew what he meant. | "I am still small," said {n} on the way home. "Yes," said {gramp}, "and what a good thing that is."
]]
"""

TEXTS["snow_day"] = """
T: the snow day | snow in the night | no school today
A: snow day | {kid}, snow | snow, {kid}, {kid2}
When {n} woke up, the room was strangely bright and quiet. | It had snowed all night. | {n} pulled back the curtain and shouted, "Snow!"
The cars were white hills, and the fence had a row of white hats. | The street was gone. There was only snow, up to the second step.
"No school today," said {parent}, who had listened to the radio. | "The bus cannot come," said {parent}. "You have a free day."
{n} put on two pairs of socks, a scarf and a hat and ran over to {m}'s house. | Ten minutes later {n} stood in the yard in {his} thick coat, and {m} from next door came out too.

[[
T: the crooked snowman
A: snowman | {kid}, {kid2}, snowman
They wanted to build the biggest snowman in the street. | "Let us make a snowman as tall as my dad," said {m}.
They rolled a ball until they could not push it any more. Then they rolled a second one. | The first ball was huge, and the second one was nearly as big.
But they could not lift it. They pushed and pulled and fell on their noses. | When they tried to lift the second ball on top, it slipped and rolled away.
? "It is no use," panted {m}. "We are not strong enough." | {m} lay down in the snow. "My arms are like noodles," {he2} said.
Then {n} looked at the garden bench and the long board beside it. "We can roll it up!" {he} said. | {n} had an idea. They put a board against the first ball and rolled the second one up, slowly, like a snail on a hill.
It worked. The snowman leaned to one side, but he stood. | With a last push, it sat on top. It was crooked, and it was wonderful.
He got a carrot for a nose, two stones for eyes and an old hat from {m}'s dad. | They gave him a carrot nose, buttons of coal, arms of twigs and a bucket for a hat.

In the night it snowed again, and in the morning the snowman looked even fatter. | The next days were cold, and the snowman stood guard over the street.
People who walked by always smiled and said good morning to him. | The postman lifted his cap to him every day.
And when the sun came back and he grew smaller, {n} and {m} were not too sad. "We know how to build him now," said {n}. | When he melted at last, only the carrot was left. {n} and {m} gave it to the rabbits and waited for the next winter.
||
They wanted to go sledding, but first they saw {elder}, the old {eman} from across the street. | They were just going to the hill with the sled when {n} stopped. Across the street stood old {elder}, looking at the deep snow in front of {ehis} door.
{elder} was holding a small broom and looked worried. "I have to get to the shop," {ehe} said, "but I am afraid of falling." | "I have no more bread," said {elder}, "and I cannot get out with my bad leg."
{n} looked at the hill, and {m} looked at the sled. | {n} thought of the hill. All the other children were there already.
"We will do it," said {n}. They fetched two shovels and began to dig. | "Let us make a path," said {m}. It looked easy, but the snow was heavy.
After half an hour they had only reached the gate. {m} groaned. "This takes forever." | They dug and dug. When the path was half done, snow slid off the roof and covered it again. They stared at it and then they began to laugh.
Then {n} had an idea. "We don't need a path. We have a sled! We can bring the shop to {ehim}." | "Wait," said {n}. "What about the sled? We can go to the shop ourselves!"

So they pulled the sled to the shop with a list in {m}'s pocket. | They went through the white streets with the empty sled and came back with a full one.
They brought back bread, milk, eggs and apples, and not one egg was broken. | Bread, butter, tea and a bag of oranges rode home on the sled like a queen.
{elder} made them hot chocolate, and they drank it with red noses. | "You are my heroes," said {elder}, and {ehe} gave them warm milk with honey.
In the last light they still had time for the hill, and the sled went faster than ever. | "We missed the hill," said {m} on the way home. "But we had an adventure," said {n}.
]]
"""

TEXTS["night_light"] = """
$shape = moon; star; mushroom; whale; house; snail
$thing,was = a giant with long arms/coat on the hook; a bear by the wardrobe/heap of clothes on the chair; a dragon with a long tail/toy train on the shelf; a tall stranger/coat stand with a hat on it
T: the night light | {n} and the dark | the shape in the corner | the {shape} lamp
A: night light | {kid}, dark | fear of the dark | {shape} lamp
Every night, a little lamp in the shape of a {shape} shone beside {n}'s bed. | {n} had a night light. It was shaped like a {shape}, and it gave a soft yellow glow. | "Is the {shape} on?" {n} asked every night. The {shape} was {his} night light.
As long as it shone, {n} was not afraid of anything. | With the {shape} next to {him}, {n} could sleep through any storm.
But one <evening/{day} evening>, {parent} pressed the button, and nothing happened. The lamp was broken. | Then, one evening, it went "pop", and the light was gone.
"I will get a new bulb tomorrow," said {parent}. "Tonight we must do without it." | "The shops are closed," said {parent}. "Can you sleep without it, just for one night?"

{n} lay in the dark with {his} eyes wide open. | The door closed, and the room was very, very dark.
In the corner there was something. It looked like {thing}. | Then {he} saw it. In the corner stood {thing}!
? The floor creaked. The curtain moved. | {His} heart went boom, boom, boom.
[[
{n} pulled the blanket over {his} head. But under the blanket it was hot, and {he} could not breathe well. | "Go away," {n} whispered. The thing did not move.
"{parent}!" {he} called. {parent} came at once and sat down on the bed. | {He} called for {parent}, and {parent} came in slippers.
"There is something in the corner," {he} said. "Let us look at it together," said {parent}. | "I see it too," said {parent}. "Let us go and say hello. I will hold your hand."
Step by step they went closer. {n} put out a finger and touched it. | They walked over the cold floor. {n} was shaking a little, but {he} went.
It was only the {was}! | And what was it? It was the {was}, and nothing else.
{n} had to laugh. "Good night," {he} told it. | "You gave me a fright," {n} said to it, and {parent} laughed.
"In the dark, our eyes make up stories," said {parent}. "You can make up nice ones too." | "The room is just the same in the dark," said {parent}. "Only the colours are asleep."
So they made a game of it. The curtain was a sail, and the bed was a boat. | They lay side by side and guessed what all the dark shapes were. Most of them were socks.
||
Then the door opened, and {m}, {his} little {bro2}, came in with a pillow. "It is dark everywhere," {he2} said. "I am scared." | At that moment {he} heard someone crying softly. It was {m}, {his} little {bro2}, in the other bed.
{n} forgot to be afraid, because someone else was more afraid. | {n} sat up. {He} was the older one, and {he} had to do something.
"Come here," {he} said. "I will show you that there is nothing." | "Don't cry," {he} said. "I will go and look."
{n} took a deep breath, walked to the corner and put out {his} hand. | On bare feet, {he} walked straight up to the dark shape.
It did not move. It was only the {was}! | {He} touched it and began to laugh. It was only the {was}.
"See?" {he} said, and {his} voice hardly shook. | "It is nothing but that," said {n}. "You can touch it."
They opened the curtain a little, and there were the stars, hundreds of night lights that never break. | {m} crept into {n}'s bed, and they listened to the sounds of the house. The pipes said "gluck", and the clock said "tick".
]]
Soon {n} was fast asleep. | Before long, {n}'s eyes closed by themselves.

The next day {parent} brought a new bulb, and the {shape} shone again. | In the morning, {parent} mended the lamp.
[[
But after a while {n} said, "You can turn it off. I know who lives in the dark now." | That evening {n} looked at it for a while. Then {he} switched it off {self}, just to see the stars.
||
{n} was glad to have it back. But {he} knew that {he} could do without it, and that was a good feeling. | "I like it," said {n}, "but I don't need it every night." And {he} slept very well.
]]
"""

TEXTS["boxes_boat"] = """
$ship = The Brave Duck; The Flying Spoon; The Blue Whale; The Sea Potato
$box = fridge; washing machine; wardrobe
T: the boat of boxes | {ship} | a ship in the living room
A: cardboard boat | {kid}, {kid2}, boat | boat of boxes | rainy day, boat
The new {box} came in a huge cardboard box. | On {wday} a new {box} was brought to {n}'s house. But {n} only cared about the box. | "May I have the box?" asked {n} when the new {box} had been carried in.
It was big enough to sit in. {n} called {his} {bro2} {m} at once. | {n} and {his} {bro2} {m} walked around it three times. "It is a house," said {m}. "It is a boat," said {n}.
They cut out windows, and {dad} helped with the sharp knife. | With paint, string and a broom, they made it into a boat. {dad} cut the hard parts.
They painted "{ship}" on the side in big letters. | They named it "{ship}", and {m} painted the name, with one letter the wrong way round.

[[
T: two captains
"I am the captain," said {n}. "No, I am," said {m}. | Then they both put on the captain's hat at the same time, and it tore.
They both pulled at the wheel, which was a plate. The ship shook, and one side split from top to bottom. | They pushed and pulled until there was a long rip. The mast fell over.
"Now look what you did!" they both said. The great ship lay flat on the carpet. | The two of them stood there in silence. The boat looked very sad.
"Is there a storm at sea?" asked {dad}, looking in. "It was not the storm," said {m} quietly. "It was us." | {dad} put his head around the door. "A ship with two captains goes in circles," he said, and he gave them a kind smile.
They thought about it. "I could be the captain in the morning," said {n}, "and you in the afternoon." | "What else is there on a ship?" asked {m}. They counted: a captain, a cook, a pilot and a lookout. There was plenty to do.
Together they taped the torn side, and it was even stronger than before. | They mended the rip with strong tape, one holding and one sticking.
||
$water = pond; stream
They carried it down to the {water} behind the house. | "Will it swim?" asked {m}. There was only one way to find out. They took it to the {water}.
For one wonderful minute the boat floated. Then the bottom became soft, and water came in. | They put it on the water with the teddy bear as captain. It floated, turned once and began to sink.
"Save the ship!" cried {n}. {m} ran in up to the knees and pulled it out. | {m} caught it by the string just in time. The boat was wet and limp, like an old pancake.
They sat on the bank with wet feet and long faces. | "All that work," said {n}, and threw a twig into the water.
{dad} came and looked at the soggy boat. "Cardboard does not like water," he said. "But it loves carpets." | "Do you know what real sailors do after a shipwreck?" asked {dad}. "They build a better boat."
There were smaller boxes in the cellar. They took six of them home to the living room, and the second ship was twice as long. | They dried their feet, found four more boxes and built a new ship in the living room, where it was safe.
]]

Then they set sail. The carpet was the sea, and the sofa was an island. | Soon {ship} was sailing across the wide blue carpet.
((
They caught fish made of socks. | {m} saw a whale, which was really the dog's cushion.
{n} looked through a paper tube and called, "Land ahead!" | In a storm they ate crackers and held on tight.
))
When {mum} came home, she had to pay two apples to get to the kitchen. | {mum} came in and stopped. "May I come on board?" she asked. "Only with a biscuit," said the sailors.
[[
That night they slept in the boat, one at each end, and their feet met in the middle. | They were allowed to sleep in the ship that night, and it did not sink at all.
||
The boat stood there for two weeks, until it fell apart. By then, they already had plans for a rocket. | When the boat was worn out at last, they kept the piece with the name and hung it on the wall.
]]
? It was the best thing that ever came with a {box}. | "The best toys come with nothing inside," said {dad}.
"""

TEXTS["missing_cat"] = """
$cn = Tiger; Molly; Mittens; Olive; Pepper; Ginger; Luna
$col = grey; black; orange; white; striped
$place = the neighbour's shed; the garage; the cellar of the bakery; the garden hut
T: where is {cn}? | the missing cat | {n} looks for {cn} | {cn} comes home
A: missing cat | {kid}, cat | lost cat | {col} cat
Every morning at seven, {cn} the {col} cat jumped on {n}'s bed. | {cn} was a {col} cat with a white nose, and she belonged to {n}. | {n} had a {col} cat named {cn}, who was always hungry and always on time.
But on {day}, she did not come. | One cold morning the bed was empty, and the bowl was still full. | Then one day {cn} did not come in for breakfast.
"She is just out for a walk," said {dad}. But in the evening she was still not there. | {n} shook the box of cat food and called, but no {cn} came running.

{n} looked in all her favourite places, in the laundry basket, behind the stove and on top of the wardrobe. | {n} and {dad} walked up and down the street with a torch. "{cn}! {cn}!" they called.
They asked the baker, the postwoman and the children in the park. Nobody had seen her. | {n} rang at every door. "Have you seen a {col} cat?" {he} asked. People shook their heads.
? At night {n} left the kitchen window open a little, in case she came. | That night {he} put {his} own sweater outside the door, so that {cn} could smell it.
[[
The next day {he} made posters. On each one {he} drew {cn}, with every whisker, and wrote the telephone number. | {m}, {his} best friend, came to help. They drew twenty posters and put them up on trees and lamp posts.
In the afternoon the telephone rang. "I have found your cat," said a voice. {n} ran all the way, but it was another cat, fat and spotted. | Somebody called and said, "She is in my garden." But it was a different cat, with a red collar, who only wanted to be left alone.
{n} walked home slowly. "What if she never comes back?" {he} said. | {n} was so sad that {he} could not eat.
On the way {he} stood still. Was that a voice? It was very thin and came from {place}. | Then, on the way past {place}, {he} heard something. "Miau." It was very soft.
The door was locked. {n} put {his} ear against it. "Miau!" it said, much louder. | {He} called {his} cat's name, and something scratched on the other side of the door.
{dad} went to get the key. When the door opened, {cn} shot out and jumped into {n}'s arms. | The owner came with a key. Out walked {cn}, dusty and thin, with a cobweb on her ear.
She had gone in after a mouse, and someone had shut the door. | "I shut that door on {day}," said the owner. "I am so sorry! I did not see her slip in."
||
On the third day, {n} noticed something odd. The milk on the step was gone, and there were small paw prints in the mud. | On the third morning, {n} saw small paw prints in the mud. They led along the fence.
{He} followed the trail past the apple tree and the rain barrel, right up to {place}. | The trail went through the hedge and ended at {place}.
It was dark in there. {n} was a little afraid, but {he} went in. | {n} opened the door, just wide enough to look in.
There, in a box of old rags, lay {cn}. And she was not alone. | Two green eyes shone in the corner. It was {cn}! Next to her something moved.
Three tiny kittens were drinking, with their eyes still shut. | {n} counted one, two, three, four little kittens, each no bigger than a mitten.
"So that is why you had no time for us," whispered {n}. | {n} forgot to breathe. Then {he} tiptoed out and ran to get {dad}.
Then {dad} came with a basket and carried them all to a warm corner of the kitchen, and {cn} let him, because {n} was there. | They carried the whole family home, very slowly, and gave them the best place by the stove.
]]

That evening {cn} drank a whole bowl of milk and fell asleep on {n}'s feet. | At home, {cn} ate for ten minutes without looking up.
[[
{n} told the whole street. "She is back!" {he} said, and everyone was glad. | {n} sat beside her until bedtime and told her how much {he} had missed her.
||
{cn} purred so loudly that you could hear it in the next room. {n} listened and was happy. | "Please tell me next time," {n} said into her fur. {cn} blinked, which may have meant yes.
]]
? And the next morning at seven, there was a soft jump, and a warm weight on {n}'s bed. | From then on, {n} said good night to {cn} every evening before {he} went to bed.
"""

TEXTS["few_cakes"] = """
$snack = cupcakes; little lemon tarts; cinnamon buns; jam rolls
$n1,n2 = eight/twelve; six/ten; seven/eleven
T: too few cakes | {n}'s birthday | {n1} cakes and {n2} guests | enough for everyone
A: birthday party | {kid}, birthday | birthday, cakes | sharing, birthday
It was {n}'s birthday, and {he} was <six/seven/eight> years old at last. | {n} had counted the days, and now {his} birthday was here. | "Happy birthday!" called {mum}, and {n} jumped out of bed.
{dad} had baked {n1} {snack}, one for each child. | On the table stood {n1} {snack}, and each of them had a small candle.
The balloons were up, and at three o'clock the bell rang. | At three the guests came, with flowers, parcels and wet boots.

But then the bell rang again, and again. {m} had brought {his2} two cousins, and {o} had brought {his3} two little brothers. | {n} counted the guests and frowned. {His} friends {m} and {o} had each brought a little brother and a little sister. 
There were {n2} children and only {n1} {snack}! | "{dad}," whispered {n}, "we are {n2}, but there are only {n1} {snack}."
"Oh dear," whispered {dad}. "The shop is closed, and there are no more eggs." | {dad} looked in the cupboard. There was no flour left, only raisins and half a jar of honey.
? {n}'s heart sank. It was {his} party, and it was going to be spoiled. | For a moment {n} wished that the extra children would go home. Then {he} was ashamed of that thought.

[[
"We could cut them in half," said {m}. But the first one fell apart under the knife, and there was nothing left but crumbs. | They tried to cut one in two, but it fell apart into a heap of crumbs.
{n} looked at the crumbs, and then {he} had an idea. "We don't need whole ones!" {he} said. | Then {n} saw the biggest glass bowl on the shelf. "I know what to do!" {he} said.
All the children washed their hands and broke the {snack} into little pieces in a big bowl. {mum} brought apples and bananas, and {dad} whipped some cream. | They crumbled all the {snack} into a very big bowl. On top went sliced fruit, then cream, then honey and raisins.
The bowl was full to the top. There were {n2} spoons and {n2} happy faces. | It looked like a mountain in winter, and there was enough for everyone, even for {mum} and {dad}.
"What is it called?" asked {o}. "Mountain cake," said {n}. | "This is better than a cake," said {m} with a full mouth. "What is its name?" "Birthday Mountain," said {n}.
||
{n} looked around. The smallest guest was staring at the plate with big eyes. | A very small girl pulled at {n}'s sleeve. "Is there one for me?" she asked.
"Of course," said {n}, and gave away {his} own. | {n} swallowed. "You can have mine," {he} said.
{m} saw it. {He2} broke {his2} piece in two and put one half on {n}'s plate. "I don't need a whole one," {he2} said. | {m} had been watching. "Then you get half of mine," {he2} told {n}.
Then {o} did the same, and soon everyone was sharing with someone. | The others saw it too. Halves and quarters went around the table, until every plate had something on it.
It was strange. Each piece was smaller, but the table seemed to be fuller. | {n} looked down. There were now four pieces on {his} plate, more than {he} had given away.
]]

Afterwards they played <musical chairs/hide and seek/treasure hunt> until it was dark. | Then they danced and played games, and with {n2} children every game was louder and better.
[[
"Were there too many people?" asked {mum} in the evening. "No," said {n}. "There were just too few cakes, and that was the best part." | When all had gone, {dad} said, "Next year I will bake more." "Please don't," said {n}. "I want it to be like this again."
||
In bed, {n} thought about the day. The presents were nice. But what {he} remembered most was the sharing. | "It was my best birthday," said {n}, and {he} fell asleep with a bit of cream on {his} ear.
]]
"""

TEXTS["apples"] = """
$fr = apples; pears; oranges; plums; potatoes
T: {elder}'s {fr} | a bag full of {fr} | the rolling {fr} | helping {elder}
A: old {eman}, {fr} | {kid}, old {eman} | helping a neighbour
On the way home from school, {n} and {m} saw an old {eman} with two heavy bags. | {n} and {m} were walking up the hill when they saw an old {eman} in front of them, with a heavy bag in each hand. | It was a hot day. In front of {n} and {m}, an old {eman} was slowly climbing the hill with two big bags.
[[
Suddenly one of the bags tore, and {fr} rolled down the street. | Then, rip, the bottom of one bag gave way. Out jumped the {fr} and ran down the hill like little animals.
"Oh no!" called the old {eman}. | "My {fr}!" cried the old {eman}, and put both hands on {ehis} cheeks.
{n} ran to the left and {m} ran to the right. | The children did not stop to think. They ran.
They caught some with their hands and some with their feet. One rolled under a parked car, and {m} had to lie on {his2} stomach. | {n} caught three in {his} hat. {m} stopped five with {his2} school bag. A dog brought back one more, a little bit chewed.
But the bag was torn. How could they carry them all? | Now they had a great heap of {fr}, but nothing to put them in.
{n} took off {his} jacket and tied the sleeves together. It made a fine sack. | "My jacket!" said {n}. They tied the sleeves in a knot, and it was a bag.
||
"Can we help you?" asked {n}. "Thank you, but I can manage," said the old {eman}, breathing hard. | {n} wanted to help, but the old {eman} shook {ehis} head. "I have always carried my own {fr}," {ehe} said.
They walked behind for a while. The old {eman} had to stop at every lamp post. | So {n} and {m} walked a few steps behind. Every now and then the bags had to be put down.
"We can't just take the bags away," whispered {m}. "No," said {n}, "but wait." | {n} thought about it. How do you help someone who does not want help?
"Could we ask you something?" {he} said. "We are in training for sports day, and we have to carry something heavy up a hill. May we borrow your bags?" | "We are in training," {n} said at last. "We need to get strong for sports day. Could we carry your bags, just for practice?"
The old {eman} looked at them, and the corners of {ehis} eyes began to smile. "Well, if it is for training," {ehe} said. | There was a pause. Then the old {eman} laughed. "I see," {ehe} said. "In that case, I must not stand in your way."
]]

Together they went up the hill. It was a long way, and they talked about many things. | So they climbed the hill, all three of them, and rested on every bench.
"My name is {elder}," said the old {eman}. "I used to run up here when I was your age." | "I am {elder}," said the old {eman}. "When I was small, there were goats on this hill, and not a single house."
At the top stood a little house with a green door. | {elder}'s house was small, with roses around the door.
"What do you do with so many {fr}?" asked {m}. "I like to cook for a full table," said {elder}, "but these days the table is mostly empty." | Inside there was a long table with only one chair pulled out. {n} noticed that.

[[
{n} and {m} looked at each other. "We could come and help you cook," said {n}. | "We could bring our own chairs," said {m}. {elder} had to blink a few times.
So on {wday} they came back with aprons, and the kitchen was full of steam and laughter. | On {wday} they came with two friends and peeled and stirred all afternoon.
In the evening, the long table was full, and there was not one empty chair. | And every week after that, there was laughter in the little house.
||
{elder} gave them each a glass of cold juice and showed them old photos. | They drank juice in the shade, and {elder} taught them a song about a goat.
The next {day}, they waited for {elder} at the bottom of the hill. "We have come for the bags," said {n}. | After that, they met {elder} every {day} at the foot of the hill and carried the bags to the top.
With all that carrying, they were very strong when sports day came. And {elder} sat in the front row and cheered. | Their arms got strong. But more than that, they had found a friend with a hundred stories.
]]
"""

TEXTS["moving"] = """
$thing = mark on the door frame; creaking stair; cherry tree; swing in the yard
$floor = third; fourth; fifth; second
T: the new house | moving day | {n} moves away | a new home for {n}
A: new house | {kid}, moving | moving to a new house
All of {n}'s things were in boxes. The family was moving to another town. | "We are moving in June," {mum} had said. Now it was June. | {n} sat on the last box in {his} empty room. It echoed when {he} spoke.
{He} did not want to go. Here was the {thing}, and here were {his} friends. | "I am staying here," said {n}. "You can visit me." But of course {he} could not stay.
{He} said goodbye to the kitchen, to the bath and to the {thing}. | {n} walked through all the rooms and said goodbye to each one, and last of all to the {thing}.

The new flat was on the {floor} floor and smelled of paint. | The new home was high up, on the {floor} floor, and everything in it was white.
Nothing was in its right place. At night the sounds were wrong. | {n} could not find {his} socks, {his} cup or the light switch.
"I don't like it," {he} said. "It is not home." | "When are we going home?" asked {n} on the second day. {mum} and {dad} looked at each other.
? {mum} cooked {his} favourite soup, but even the soup tasted different. | {dad} told {him} about the nice park, but {n} did not listen.

[[
On the third day, {dad} brought a pencil. "Stand here," he said, and he made a mark on the new door frame. "{n}, first week," he wrote beside it. | {mum} gave {him} a pot of paint. "This wall is yours," she said. "You can paint anything you like on it."
{n} looked at it for a long time. It was the first thing in the new place that was {his}. | That was something {n} had never been allowed to do before.
"May I do more?" {he} asked. {He} made a sign for {his} door, hung up {his} pictures and put {his} old lamp by the bed. | Then {he} got to work. {He} put {his} old things around {him}, the lamp, the blanket and the picture of the old house.
While {he} was hammering, someone hammered back from the other side of the wall. Knock, knock, knock. | Suddenly there was a knock on the wall, from the other side. {n} knocked back.
{n} ran out into the hall. The next door opened, and there stood a {kid2} with a spoon in {his2} hand. | A minute later the bell rang. Outside stood a {kid2} with messy hair.
"I'm {m}," said the {kid2}. "We can talk through the wall! Two knocks mean good night." | "Was that you?" asked the {kid2}. "I am {m}. I always wanted someone to knock with."
||
On {wday}, {n} sat on the steps in front of the house and felt alone. | One afternoon, {mum} sent {him} down to get the post. {n} sat on the bottom step and did not want to go back up.
A {kid2} came by with a dog. The dog sat down on {n}'s foot and would not move. | A ball bounced down the stairs and hit {his} knee. Behind it came a {kid2}.
"Are you the new one?" asked the {kid2}. "I'm {m}. Do you know the secret way to the park?" | "Sorry!" said the {kid2}. "I'm {m}. You are new, right? Have you seen the roof yet?"
{n} shook {his} head. "Come on, I'll show you!" | "No," said {n}. "Then you have seen nothing," said {m}. "Ask your mum, and come along."
$see = a tiny garden between the walls; a wall full of painted fish; an old tree with a rope ladder
{m} knew everything, the friendly baker, the cat that slept in the window, and {see}. | They went past the bakery, where they got a warm roll, and found {see}.
When {n} came back, {he} found the door and the light switch at once. | {n} was late for supper, because {he} had so much to look at.
]]

[[
That night {n} lay in bed and listened. The sounds were not so strange any more. | In the evening, {n} looked out of the window. There was the same moon as before.
"How was your day at the new place?" asked {mum}. "You can say home," said {n}. | "Good night, new house," said {n}. And it seemed to {him} that the house said good night too.
||
A week later, {n} wrote to {his} old friends. "You must come and visit," {he} wrote. "I will show you my home." | At the end of the month, {n} noticed something. On the way back from the shop, {he} had said, "Let us go home," without thinking.
{He} still missed the {thing}. But you can miss one place and like another. | The old house was still in {his} heart, but there was room for two.
]]
"""

TEXTS["kite"] = """
$col,shape = red/dragon; blue/fish; yellow/bird; green/frog; orange/sun; white/star
$place = the hill behind the village; the big field; the meadow by the river; the beach park
T: the kite in the tree | {n}'s {col} kite | the {col} kite | up in the tree
A: kite | {kid}, kite | kite in a tree | lost kite
{n} and {gramp} had made a kite. It was {col}, in the shape of a {shape}. | For three evenings, {n} had worked on a kite with {gramp}. It was {col} and looked like a {shape}. | The kite was {col}, it was shaped like a {shape}, and {n} had made it together with {gramp}.
On {wday} there was a good wind, so they took it to {place}. | At last the wind was right. They went to {place}, and {n} ran as fast as {he} could.
Up it went, higher than the houses. | The kite rose, shook its tail and climbed into the sky.
"Let out more string!" called {gramp}. | {n} laughed out loud. It pulled at {his} hands like something alive.

Then the wind turned. The kite dived and flew straight into a tall tree. | But all at once the wind changed. The kite spun around and got stuck in the top of a tree.
{n} pulled, but it did not come loose. | It hung there between the branches and fluttered. 
"Don't pull so hard," said {gramp}. "The string will break." But it was too late. | {n} tugged at the string, and it snapped.
? {n} felt like crying. Three evenings of work were up in that tree. | {gramp} was too old to climb, and {n} was too small.

((
They threw a stick, but it did not fly high enough. | {n} threw a pine cone at the branch, but it only came back down on {his} own head.
{n} tried to climb, but the lowest branch was far too high. | {gramp} shook the trunk, and three dry leaves came down.
))
[[
A {kid2} with a ball came by and looked up. "I'm {m}," said the {kid2}. "Do you need help?" | "Is that your kite?" asked someone. It was {m}, a {kid2} from the next street.
"If you stand on my shoulders, you can reach the branch," said {m}. They tried, but it was still too high. | {m} threw the ball at the kite, once, twice, three times. It missed every time.
Then a girl with a fishing rod came from the river. The three of them looked at the rod, and they all had the same idea. | "My mother washes windows," said {m} suddenly. "She has a very long pole!" {He2} ran off and came back with it.
They held it up together, and {gramp} told them where to go. "More to the left. Higher. Now!" | It took all of them to hold it straight. They pushed and turned, and the branch shook.
The kite came sailing down, and {n} caught it with both arms. | With a soft rustle, the kite slid down, right into {n}'s arms.
||
"Let us think," said {gramp}, and he sat down in the grass and ate a sandwich. | {gramp} looked at the sky. "What the wind has done, the wind can undo," he said.
"How can you sit there?" asked {n}. "I am listening to the wind," said {gramp}. "It is going to turn again." | So they sat down under the tree and waited. {n} did not believe in it at all.
They waited for a long time. {gramp} told {him} about the kites he had lost as a boy. There had been nine of them. | An hour went by. They played a game with stones, and {n} almost forgot the kite.
Then the leaves began to whisper. A strong gust came from the other side and lifted the kite out of the branches. | Suddenly a great gust blew from the river. The branches bent, and the kite jumped free.
It flew a little way on its own and came down in the long grass. | Slowly it sank to the ground, as if it was tired.
]]

It had a hole in one side, and its tail was gone. | One corner was torn, but the sticks were whole.
At home they put a patch on it. Now the {shape} looked as if it had been in a fight and had won. | "A kite without a patch has no stories to tell," said {gramp}, and he got out the glue.
[[
The next week they flew it again, far from any tree, and {gramp} let out the whole roll of string. | On the next windy day, {n} looked around first. There was no tree anywhere. "Ready!" {he} called.
||
{n} drew a tiny tree on the patch, so that {he} would remember. | From then on, {n} always asked two things before {he} ran: where is the wind, and where are the trees?
]]
"""

TEXTS["surprise"] = """
$who,whe,whis = {mum}/she/her; {gran}/she/her; {dad}/he/his; {gramp}/he/his
$made = a paper crown; a book of drawings; a big card with all their hands on it; a chain of paper flowers
T: the surprise | a secret for {who} | the secret in the cupboard | almost a surprise
A: surprise, birthday | {kid}, {kid2}, surprise | secret
{who} was going to have a birthday, and {n} and {his} {bro2} {m} had a secret. | "We will make a surprise for {who}'s birthday," said {n} to {his} {bro2} {m}. "{He4} must not know anything." | It was only three days until {who}'s birthday. {n} and {his} {bro2} {m} had a plan.
They made {made} and hid it in the cupboard under the stairs. | For two whole afternoons they worked on {made}. Then they put it in the cupboard under the stairs.
"Not a word," said {n}. {m} pressed {his2} lips together. | "Can you keep a secret?" {n} asked. {m} nodded so hard that {his2} hair flew.

But a secret is hard to keep. | It is not easy to keep quiet when you are so happy.
((
At supper {m} said, "I know something that I must not say!" {n} coughed loudly. | {m} sang a song that went, "We have hidden something, la la la." {n} quickly put a hand over {m}'s mouth.
{who} wanted to get the broom from the cupboard. "I will get it!" shouted {n}, and {he} almost fell over a chair. | When {who} went near the stairs, {n} ran in front and stood there like a guard. "The floor is wet!" {he} said.
))
{who} raised {whis} eyebrows, but {whe} said nothing. | "You are both very strange today," said {who}.

[[
On the morning of the birthday, {n} opened the cupboard, and {he} went pale. | Then the big day came. {n} crept down the stairs to get the present.
The cupboard was wet. A pipe had dripped all night, and the present was only soggy paper. | There had been a leak. All their work was soft and grey, and the colours had run.
"It is spoiled!" said {m}, and big tears ran down {his2} face. | {m} looked at it and began to cry.
There was one hour left before {who} got up. "We can't make it again," said {n}. "But we can do something else." | "Don't cry," said {n}, although {he} wanted to cry too. "We still have one hour. What can we do without paper?"
{m} wiped {his2} nose. "We can sing," {he2} said. "And we can make breakfast." | They looked around. There were flowers in the garden, eggs in the basket and bread on the shelf.
They picked every daisy in the grass, laid the table and practised a song in whispers. | They made a path of flowers from the stairs to the table. They boiled eggs and drew a face on each one.
When {who} opened the door, there was singing, and it was only a little bit wrong. | Then {who} came in and stood still. "Surprise!" called the two of them.
"This is the nicest birthday I have ever had," said {who}, and {whis} eyes were shiny. | {who} took them both in {whis} arms and could not speak for a moment.
||
On the morning of the birthday, {n} and {m} got up very early. They crept through the dark to the stairs. | The birthday came. The two of them got up before the sun and tiptoed down.
But the cupboard was locked, and the key was gone. | {n} pulled at the cupboard door. It was locked!
"I locked it," whispered {m}, "so that nobody could look. And I hid the key." "Where?" asked {n}. {m} thought. "I forgot." | "Where is the key?" asked {n}. {m} turned red. {He2} had hidden it so well that {he2} could not find it any more.
They looked in the shoes, in the flower pots and in the sugar. Time was running out. | They searched in the teapot, behind the clock and under the mat. Upstairs a door opened.
Then {who} came down. "Are you looking for something?" {whe} asked. "No!" they said. "Yes!" they said. | At that moment {who} came in and put on {whis} slippers. "Ouch!" {whe} said. "What is in here?"
{who} reached into one slipper and took out a small key. "I wonder what this is for," {whe} said. | Out of the left slipper fell the key!
{m} jumped in the air. "It is for your surprise!" {he2} shouted, and then {he2} put both hands over {his2} mouth. | {n} grabbed it, ran to the cupboard and came back with the present behind {his} back.
{who} laughed until {whe} had to sit down. And then {whe} was really surprised, because the present was so beautiful. | "I knew that there was a secret," said {who}, "but I never guessed that it would be so lovely."
]]

[[
Later, {n} said to {m}, "Next time we will hide it better." "Next time," said {m}, "don't tell me until the end." | {who} told the story to everyone who came that day, and each time it got a little longer.
||
In the evening, {m} gave a deep sigh. "I am so glad that I don't have a secret any more," {he2} said. | "Do you know what the best part was?" {who} asked that night. "That you did it together."
]]
"""
TEXTS["surprise"] = TEXTS["surprise"].replace('"{He4} must not know anything."', '"It has to be a secret."')

TEXTS["quarrel"] = """
$what = a blue marble; the last red crayon; a seashell; a toy car; a paper plane
$thing = marble; crayon; shell; car; plane
T: the quarrel | best friends again | {n} and {m} make up
A: quarrel, friends | {kid}, {kid2}, friendship | best friends
{n} and {m} were best friends. They sat together at school and walked home together. | Everyone knew that {n} and {m} belonged together, like bread and butter. | {n} lived at number four and {m} lived at number six, and they did everything together.
But on {day} they had a quarrel. It began with {what}. | Then, one grey afternoon, they had a fight about {what}.
"You took it!" said {n}. "I did not!" said {m}. | "Give it back!" said {n}. "I don't have it!" said {m}.
One word led to the next, and the words got louder. | They both said things they did not mean.
"I don't want to be your friend any more," said {m}, and {he2} walked away. | "Then go home!" shouted {n}. And {m} did.

The next day {n} walked to school on the left side of the street, and {m} walked on the right. | At school they did not look at each other.
It was a long day. When something funny happened, {n} turned to tell {m}, and then {he} remembered. | {n} ate lunch alone, and it did not taste of anything.
? "Is {m} ill?" asked {parent}. {n} only shrugged. | At home, {n} built a tower and knocked it down again.
[[
In the evening, {n} turned out {his} pockets. There, in the lining, was {what2}! {m} had not taken it after all. | Two days later, {n} found it. {What2} lay under {his} own bed, deep in the dust.
{n} turned hot and cold. {He} had been wrong. | {n} stared at it. {m} had told the truth.
"What do I do now?" {he} asked {parent}. "You know it already," said {parent}. | "It is hard to say sorry," {he} told {parent}. "Yes," said {parent}. "But it is short. It is only one word."
{n} went to {m}'s house, turned around, and went there again. At last {he} rang the bell. | Three times {n} walked past {m}'s gate. The fourth time {he} went in.
{m} opened the door and did not smile. | The door opened, and there was {m}.
"It was in my house all the time," said {n}. "I was wrong, and I am sorry." | {n} held it out. "I'm sorry," {he} said. "I should have believed you."
{m} looked at {his2} feet. "I am sorry that I shouted so much," {he2} said. "I did not mean it." | "I was mean too," said {m}. "I have missed you since the first minute."
||
On the third day it rained hard. {n} had forgotten {his} umbrella. | On the third day, {n} had to walk home in the pouring rain.
{He} ran with {his} jacket over {his} head. Suddenly no more drops fell on {him}. | The water ran down {his} neck. Then, all at once, it stopped.
Someone was holding an umbrella over {him}. It was {m}. | {He} looked up and saw a big umbrella, and under it stood {m}.
They walked without a word. But they walked in step, as they always did. | For a while they listened to the rain. Then both of them began to speak at the same time.
"You first," said {n}. "No, you," said {m}. And then they had to laugh. | "I'm sorry," they said together, and it sounded so funny that they laughed.
"I don't care about it any more," said {n}. "But I will help you look for it," said {m}, and they found it that same day, behind the coats at school. | "It was only a thing," said {n}. "You are my friend." {m} nodded. "And we can look for it together," said {m}.
]]

[[
They went to the kitchen and shared a big piece of bread with honey. | Then they sat on the wall and told each other all that had happened since the quarrel. It was a lot.
||
That afternoon they built the longest marble run in the world, from the kitchen to the front door. | They spent the whole afternoon in the tree house, and nobody talked about the fight again.
]]
After that they had a rule. When they were angry, they counted to twenty before they said anything. Most of the time, they started to laugh at twelve. | They still quarrelled now and then, as friends do. But it never again lasted longer than one hour. | {n} learned that a friend is worth more than being right.
"""
TEXTS["quarrel"] = TEXTS["quarrel"].replace("$what = a blue marble; the last red crayon; a seashell; a toy car; a paper plane\n$thing = marble; crayon; shell; car; plane\n", "$what,what2 = a blue marble/the blue marble; a red crayon/the red crayon; a shiny seashell/the seashell; a toy car/the toy car; a silver button/the silver button; a football card/the football card\n").replace("built the longest marble run in the world", "built a long road of blocks")

TEXTS["market"] = """
$thing,thing2 = a man with a talking parrot/the talking parrot; a table full of tiny glass animals/the glass animals; a woman who was painting faces/the woman who painted faces; a basket of baby rabbits/the baby rabbits
$coat = red; yellow; green; purple
T: lost at the market | {n} at the market | the {coat} umbrella
A: market, lost {kid} | {kid}, market | getting lost
On {wday}, {n} went to the market with {parent}. | The market was loud and full of colours, and {n} held {parent}'s hand. | {n} loved the market, with its smell of bread, fish and flowers.
"Stay close to me," said {parent}. "If we lose each other, don't run around. Go to the {coat} umbrella at the flower stall, and I will find you." | Before they went in, {parent} pointed at the {coat} umbrella over the flower stall. "If you ever get lost, go there and wait," {phe} said.
They bought carrots, and then they bought cheese. | First they bought onions, and then {parent} stopped to choose a fish.
Then {n} saw {thing}. {He} only wanted to look for a second. | Just then {n} noticed {thing}, and {he} let go of the hand.

When {he} turned around, {parent} was gone. | {He} looked and looked. And when {he} looked back, there were only strange coats and strange bags.
"{parent}?" {he} called. Nobody answered. | All around {him} were legs, and none of them were the right ones.
[[
{n} started to run, first one way and then the other, and now {he} did not know where {he} was at all. | {He} ran after somebody with the same hat. But when the person turned around, it was a stranger.
Then {he} remembered what {parent} had said, and {he} stopped. | Out of breath, {he} stood still and thought of {parent}'s words.
{He} climbed on a low wall. Over all the heads, far away, {he} saw the {coat} umbrella of the flower stall. | {He} looked up instead of around. And there, above the crowd, was the {coat} umbrella that stood over the flower stall.
{He} went straight to it. "I am lost," {he} told the flower seller. "May I wait here?" | Step by step {he} pushed {his} way there. The flower seller had a kind face. "I have lost {parent}," said {n}.
"You are not lost," said the flower seller. "You are just early." And {n} was given a daisy to hold. | "Then sit down here," said the flower seller. "Everyone comes past my flowers sooner or later."
||
{n} wanted to cry, but {he} remembered the rule. {He} went to the {coat} umbrella and stood under it, very still, like a post. | Luckily the flower stall with the {coat} umbrella was not far. {n} went there and waited, although {his} legs wanted to run.
Next to {him} a small {kid2} was crying. "I am lost," said the {kid2}. "So am I," {n} told the {kid2}. | Then {he} heard someone sob. Under a table sat a {kid2}, even smaller than {n}. "I can't find my mum," said the {kid2}.
"What is your name?" asked {n}. "{m}." "We will wait together, {m}. Then we are only half as lost." | "I'm {n}," {he} said. "You can hold my hand. What are you called?" "{m}," said the {kid2}.
They told the woman at the stall, and she gave them each a cherry. Then she called out in a voice like a trumpet, "Two children here!" | {n} asked the woman at the stall for help. She lifted {m} up on a box and called loudly, "Whose are these fine children?"
{m}'s mother came first, running, and she hugged {m} and then {n} too. | It did not take long. A woman came running and threw her arms around {m}.
]]

And then there was {parent}, with the bags in one hand and {phis} hat on crooked. | A moment later {parent} came through the crowd. | Then a voice called, "{n}!" It was the best voice in the world.
"You did just the right thing," said {parent}, and held {him} for a long time. | {parent} hugged {him} so hard that a carrot broke. "How clever of you to wait," {phe} said.
"I let go of your hand," said {n}. "I am sorry." "I let go of yours too," said {parent}. | "I only wanted to look for a second," said {n}. "Seconds can be long," said {parent}.
Then they went to see {thing2}, but this time they went together. | On the way home they ate warm rolls, and {n} did not let go once. | After that, whenever they came to a new place, {n} asked first, "Where do we meet if we get lost?"
"""

TEXTS["new_baby"] = """
$sound = a cow; a duck; a trumpet; a train; a bee
T: the new baby | {n} is a big {bro} | the baby that cried | how to make a baby laugh
A: new baby | {kid}, baby | baby {bro2} | {kid}, baby {bro2}
A new baby had come to {n}'s house. {His2} name was {m}. | {n} had a new baby {bro2}, who was called {m}. | "This is {m}, your {bro2}," said {mum}, and {n} looked into the blanket.
The baby was red and small and had no teeth. | {n} had hoped for someone to play with. But {m} could not even sit.
{m} slept, drank and cried. Most of all, {m} cried. | All day long people came to see the baby. "How sweet!" they said, and they walked right past {n}.
"Shh, the baby is asleep," everyone said. | Nobody had time for {n} now. "Later," said {mum}. "In a moment," said {dad}.

"Can we give {him2} back?" asked {n} one evening. | {n} packed {his} small suitcase. "I am going to live with {gran}," {he} said.
{dad} did not laugh. He put {n} on his knee. "It is hard to share your mum and dad," he said. | {mum} sat down beside {him}. "You miss how it was before," she said. {n} nodded, and a tear fell on {his} hand.
"You were just as loud," {dad} told {him}. "And you only stopped when somebody sang to you." | "When you were a baby, you cried every evening," said {mum}. "Do you know who made you stop? Your big cousin, with silly songs."

[[
The next afternoon {m} began to cry and did not stop. {mum} rocked {him2}. {dad} carried {him2} up and down. Nothing helped. | One rainy afternoon {m} cried and cried. {mum} tried milk, and {dad} tried a walk around the table, but it was no use.
{n} put {his} hands over {his} ears. Then {he} had an idea. {He} went to the cradle and made the sound of {sound}. | {n} bent over the cradle. "Listen," {he} said, and {he} sounded just like {sound}.
The baby stopped in the middle of a cry and looked at {him} with round eyes. | Suddenly it was quiet. {m} stared at {n}.
{n} did it again, a bit louder. And then the baby smiled. It was {his2} very first smile. | So {he} did it once more. The corners of the tiny mouth went up, and there it was, the first smile.
"{He2} smiled at you!" whispered {mum}. "Not at us. At you." | "Did you see that?" said {dad}. "That smile was for you, {n}."
||
One morning {mum} had to take a pot off the stove. "Could you watch the baby for a moment?" she asked. | Then, one day, {dad} asked {him} to sit by the cradle for five minutes.
{n} did not really want to. {He} put out one finger to see what would happen. | {n} sat down with {his} arms crossed. The baby waved a tiny hand in the air.
The baby took hold of it and would not let go. | {n} touched the hand, and the five small fingers closed around {his} thumb. They were very strong.
$rest = soft
{n} sat quite still. It was warm, and it felt as if somebody had said, "You are mine." | Something warm went through {n}. Nobody had ever held on to {him} like that.
"Hello," {n} said quietly. "I am {n}. I will show you everything. First I will show you the cat." | "All right," whispered {n}. "You can stay."
When {mum} came back, {n} shook {his} head. "Shh," {he} said. "The baby is asleep." | {mum} came back and wanted to take over, but {n} said, "I can't get up. {m} needs my hand."
]]

[[
From then on, {n} had an important job. When {m} cried, everyone called for {n}. | After that, {n} sang to the baby every evening, and {dad} read to {n} afterwards, just the two of them.
||
And {mum} and {dad} made a rule. Every day there was half an hour that belonged only to {n}. | "I have so much to do at home now," {n} told {gran} on the telephone.
]]
"One day you will be big enough to play ball," {n} told the baby. "I can wait." | "{m} is still no good at football," {n} told {his} friends, "but {he2} is learning." | And when visitors came, it was {n} who pulled back the blanket and said, "Look, this is ours."
"""

TEXTS["swim"] = """
$pool = the town pool; the school pool; the indoor pool
$ring = silver; red; gold; blue
T: {n} learns to swim | the {ring} ring | deep water
A: {kid}, swimming | learning to swim | swimming lesson
Every {day}, {n} had a swimming lesson at {pool}. | On {day} afternoons, {n}'s class went swimming at {pool}. | "Today is swimming day," said {parent}. {n} made {self} very small under the blanket. But an hour later {he} was at {pool} with {his} class.
{n} liked the water as long as it was in a glass. | The others jumped in with a splash. {n} sat on the edge and put one toe in.
"Put your face in," said {teacher}, the swimming teacher. {n} shook {his} head. | {teacher}, who taught them, was friendly. But {n} was afraid to get water in {his} eyes.
{m}, who was in {his} class, could already dive like a duck. | {m} from {his} class swam past on {his2} back and waved. "It is easy!" called {m}.

{n} tried it once. {He} swallowed water, coughed and climbed out. | Then {n} took a deep breath and tried. Water went up {his} nose, and {he} ran for {his} towel.
"I am not made for water," {he} told {parent} at home. | "I am the only one who can't," {he} said on the way home, and {he} looked out of the window.
[[
That evening {parent} put a washing bowl on the kitchen table. "Let us start with a very small lake," {phe} said. | {parent} filled a big bowl with warm water. "Nobody has to be afraid of a salad bowl," {phe} said.
First {n} put in {his} chin. Then {he} put in {his} nose and blew bubbles. It tickled. | {n} blew at the water until it made waves. Then {he} put {his} mouth in and hummed. It sounded like a frog.
By {wday} {he} could keep {his} whole face in the bowl and count to ten. | Every day {he} stayed under a little longer, first to three, then to five, then to ten.
At the next lesson, {n} put {his} face into the water and opened {his} eyes. | A week later {n} was back at {pool}. {He} pretended that it was only a large bowl, and down went {his} face.
||
At the next lesson, {m} sat down beside {him}. "I was scared too," said {m}. "Do you want to know what I did?" | The next week {m} swam over. "I know a trick," {he2} said. "Shall I show you?"
"I talked to the fish," {m} said. "There are no fish here," said {n}. "I know, but you have to put your mouth in to call them." | "You lie on your back and pretend to be a leaf," said {m}. "A leaf does not do anything, and it never sinks."
{n} laughed, and before {he} knew it, {he} was trying it. It was not so bad. | {n} tried it, while {m} kept a hand under {his} back. The first time {he} sank. The second time {he} did not.
"Again," said {n}. They did it again and again, until {his} fingers were wrinkled. | After ten tries, {he} forgot to hold on to the wall.
]]

Then {teacher} dropped a {ring} ring into the water. "Who can get it?" {the} asked. | At the end of the lesson, {teacher} threw in a {ring} ring. It sank to the bottom and shone there. "Who wants to get it?" {the} asked.
"Me," said a voice. {n} was surprised, because it was {his} own. | Everyone looked around. It was {n} who had put up a hand.
{He} took a breath and went under. It was green and quiet down there. The ring was close, but {he} missed it and had to come up. | The first time {he} came up with nothing. {He} wiped {his} eyes and shook {his} wet hair.
"One more time," {he} said. And this time {his} fingers closed around it. | {He} went down again, kicked with both feet and took hold of it.
When {he} came up, {he} held it high, and {m} clapped the loudest. | {n} shot up like a cork. "I have it!" {he} shouted, and the whole class cheered.

[[
"I thought you were not made for water," said {parent} that evening. "I had only not met it properly," said {n}. | That night {n} told {parent} all about it, with waves and everything.
||
"Keep the ring until next week," said {teacher}. {n} wore it on {his} thumb all the way home. | {teacher} let {him} take the ring home for a week, and {n} put it on {his} window sill, where it caught the light.
]]
And from then on, on swimming day, {n} was the first one at the door. | It was not that the water had changed. {n} had. | The next time a new child sat on the edge with one toe in the water, {n} sat down there too. "Do you want to know a trick?" {he} asked.
"""

TEXTS["rainy_day"] = """
$ex1 = the fork with the bent teeth; a sock with a hole shaped like a heart; a very old potato; the button that fits nothing
$ex2 = a photo of {gramp} with a beard; a key that opened nothing; a stone that looked like a nose; {mum}'s first pair of shoes
T: the rainy day | a museum at home | {n}'s museum | nothing to do
A: rainy day | {kid}, {kid2}, rain | museum at home
It rained on Monday, it rained on Tuesday, and on Wednesday it was still raining. | Rain ran down the window, and {n} drew faces on the wet glass. | "Rain, rain, rain," said {n}. {He} and {his} {bro2} {m} had wanted to go to the zoo.
"I am bored," said {n}. "I am more bored," said {m}, {his} {bro2}. | {n} lay on the carpet. {His} {bro2} {m} lay on the sofa. There was nothing to do.
They had played all their games and read all their books. | They had built a tower, and it had fallen down. They had played cards, and {m} had lost three times.
? "You could tidy your room," said {mum}. Then they were very quiet. | The clock ticked so slowly that {n} thought it was broken.

Then {m} pulled something out from under the sofa. "What is this?" {he2} asked. | {n} looked under the cupboard for a lost ball and found something else.
It was {ex1}. | In the dust lay {ex1}.
"That belongs in a museum," said {dad} as he walked by. {n} sat up straight. | "Put it in a museum," joked {dad}. But {n} did not think it was a joke.
"Let us make one!" {he} said. And all at once the day was too short. | "A museum!" said {n}. "Right here in the hall!" The two of them jumped to their feet.
They searched the whole house for things that nobody looked at any more. | They went through drawers, boxes and old bags. 
They found {ex2}, and they put everything on a row of chairs. | In the cellar was {ex2}. It got a cushion of its own.
((
{n} wrote a card for each thing. | {n} made little signs with the name of every piece.
{m} made tickets out of a paper bag. | {m} cut tickets out of old newspaper.
))

[[
At three o'clock the museum opened, and nobody came. {mum} was on the telephone, and {dad} was in the cellar. | "We are open!" called {n}. But nobody heard it, because {mum} was sewing and {dad} was asleep in his chair.
{m} sat at the door with all the tickets. "No one wants to see it," {he2} said. | They waited for ten minutes, and that is long when you are waiting.
"A museum needs a poster," said {n}. They painted a big one, with an arrow, and hung it in the kitchen. Then they rang a bell through the whole house. | "Then we must invite people," said {n}. They pushed a ticket under every door, even under the neighbour's.
That helped. First came {mum}, then {dad}, and then even {elder} from next door, who had heard the noise. | Soon there was a line. {mum} came, {dad} came, and old {elder} from next door came in slippers.
||
Just when everything was ready, {m} bumped into the first chair. All the chairs fell over, one after the other. | Then the dog next door barked, {m} jumped, and half of the museum fell on the floor.
Everything was mixed up. The signs lay among the things, and nobody knew what belonged where. | There was a big heap in the middle of the hall, and all the cards were in the wrong place.
{n} wanted to be angry. But then {he} read a sign that had landed on {dad}'s boot. "Very rare. Please do not feed." | {n} picked up a card. "Found in a pyramid," it said, and it lay on {mum}'s hairbrush.
They laughed so much that they left the signs just like that. | "It is much better this way!" said {m}, and {n} had to agree.
When {mum} and {dad} came to see it, they laughed until they cried. | {mum} and {dad} paid with two raisins each and went from chair to chair, laughing.
]]

"And what is the story of this one?" asked {dad}. {n} made up a story at once. | For each thing, {n} told a story, and some of them were even true.
{dad} stopped in front of the last chair. "I have not seen this for years!" he said. | {mum} stayed for a long time in front of one chair. "I had forgotten all about this," she said softly.
[[
When they looked out of the window, the sun was shining. "Oh," said {n}. "When did it stop?" "An hour ago," said {dad}. | Nobody had noticed that the rain was over.
They ran out and jumped in all the puddles. But the museum stayed open for a week. | "Shall we go out?" asked {mum}. "Later," said the two of them. "The museum is still open."
||
In bed, {n} listened to the rain on the roof. It did not sound boring any more. | That night it was still raining. "I hope it rains tomorrow too," said {m}.
"Tomorrow," {n} whispered, "we will open a theatre." | "Good," said {n}. "Then we will make a zoo."
]]
"""

SCHEMAS = [make(k, v) for k, v in TEXTS.items()]
