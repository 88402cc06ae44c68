"""Wonder tales and journeys: simple warm short stories from hand-written schemas."""

GIRLS = "Mia Nora Lily Anna Ella Tess Rosa Ivy Hana Clara Ruby Zara Lena Maya Alma Greta Wren Poppy Dora Ines Elsie Nina Tilly Freya Amina".split()
BOYS = "Tom Ben Max Leo Sam Finn Hugo Theo Oscar Jack Omar Eli Noah Felix Arlo Kofi Luca Milo Otis Ravi Jonah Peter Emil Rafi Henry".split()
TOWNS = "Appleby Millbrook Willowdale Stonebridge Greenhill Oakley Riverton Thornfield Highmeadow Larkfield Fernby Hazelwood".split()


class Who:
    def __init__(self, name, f):
        self.name, self.f = name, f
        self.he, self.him, self.his = ("she", "her", "her") if f else ("he", "him", "his")
        self.self_ = "herself" if f else "himself"
        self.He, self.His = self.he.capitalize(), self.his.capitalize()
        self.kid, self.adult = ("girl", "woman") if f else ("boy", "man")

    def __str__(self):
        return self.name


def who(r, *others, f=None):
    used = [str(o) for o in others]
    if f is None:
        f = r.random() < 0.5
    while True:
        n = r.choice(GIRLS if f else BOYS)
        if all(n[0] != u[0] for u in used):
            return Who(n, f)


def being(r, names, f=None, *others):
    used = [str(o)[0] for o in others]
    names = [n for n in names if n[0] not in used] or names
    return Who(r.choice(names), r.random() < 0.5 if f is None else f)


def a(w):
    return ("an " if w[0].lower() in "aeiou" else "a ") + w


def cap(s):
    return s[0].upper() + s[1:]


def _flat(r, item):
    if not item:
        return []
    if isinstance(item, str):
        return [item]
    if isinstance(item, tuple):
        return _flat(r, r.choice(item))
    out = []
    for x in item:
        out += _flat(r, x)
    return out


def tell(r, titles, about, *paras):
    """Tuple = pick one; list = all in order; '' = leave out; ~ = quotation mark."""
    ps = []
    for p in paras:
        s = " ".join(_flat(r, p))
        if s:
            ps.append(s)
    return {"title": r.choice(titles), "text": "\n\n".join(ps).replace("~", '"'),
            "about": list(r.choice(about))}


def dragon_no_fire(r):
    d = being(r, ["Ember", "Cinder", "Bramble", "Rumble", "Flick", "Saffron", "Moss"])
    h = who(r, d)
    col = r.choice(["green", "red", "blue", "golden", "purple"])
    fmt = r.choice(["bubbles", "warm steam", "soft snow", "flower petals"])
    puff = {"bubbles": "a stream of shiny bubbles", "warm steam": "a big cloud of warm steam",
            "soft snow": "a swirl of soft white snow", "flower petals": "a shower of pink petals"}[fmt]
    fix = {
        "bubbles": [(f"Just then a little child began to cry because the village fair had been called off.", f"That week the village fair was very dull, and all the small children were bored and cross."),
                    (f"{d} flew down and blew bubbles over the whole square.", f"So {d} sat in the middle of the square and filled the air with bubbles."),
                    ("The children ran after them, laughing and clapping.", "Soon every child was jumping up to catch one.")],
        "warm steam": [("Then winter came, and the village pipes froze hard.", "One icy morning, the door of the school was frozen shut."),
                       (f"{d} breathed slowly and gently, and the warm steam melted all the ice.", f"~Stand back,~ said {d}, and {d.he} puffed until the ice turned to water."),
                       ("A dragon with fire would have burned the wood, but the steam did no harm at all.", "Nothing was burned, and everyone was warm again.")],
        "soft snow": [("That summer was so hot that nobody in the village could sleep.", "Then came the hottest day of the year, and even the cows lay down in the shade."),
                      (f"{d} flew over the roofs and let the cool snow drift down.", f"So {d} blew snow over the houses, the fields, and the tired cows."),
                      ("Children made a snowman in the middle of July.", "The people came outside, held up their hands, and sighed with joy.")],
        "flower petals": [("A wedding was to be held in the village, but the wind had blown all the flowers away.", "The next day there was a wedding in the village, and the goats had eaten every flower."),
                          (f"{d} flew above the bride and let the petals fall like rain.", f"So {d} blew petals over the path, the tables, and the happy bride."),
                          ("It was the prettiest wedding anyone could remember.", "Everybody said there had never been a lovelier wedding.")],
    }[fmt]
    return tell(r, ["The Dragon Without Fire", f"{d} the Dragon", "The Dragon Who Could Not Breathe Fire", f"{d} Finds a Gift"],
        [["dragon"], ["dragon", "village"], ["dragon who could not breathe fire"]],
        [(f"Once upon a time, there was a small {col} dragon named {d}.", f"High on a rocky hill lived a young {col} dragon called {d}.", f"{d} was a {col} dragon with wide wings and a very long tail."),
         (f"All the other dragons could breathe fire, but {d} could not.", f"{d.He} could fly and roar, but {d.he} could not make even one spark of fire.", f"There was only one thing {d.he} could not do: breathe fire."),
         ("", f"The bigger dragons said, ~Never mind,~ but it still made {d.him} sad.", f"Every night {d.he} practiced alone behind the rocks.")],
        [(f"{d.He} tried eating hot peppers, but they only made {d.his} eyes water.", f"First {d.he} swallowed a whole bag of pepper, and {d.he} sneezed for an hour.", f"{d.He} held {d.his} breath until {d.his} cheeks were round as pumpkins, and nothing came out."),
         (f"Then {d.he} tried running in circles to get warm, but that only made {d.him} dizzy.", f"After that {d.he} slept beside a campfire, hoping to catch some of the heat. It did not work.", f"{d.He} even asked an old dragon for help, but the old dragon only told {d.him} to wait.")],
        [(f"One day a {h.kid} named {h} climbed the hill and found {d} crying.", f"A {h.kid} called {h} was picking berries nearby and heard a sad sniff.", f"One afternoon, {h}, a {h.kid} from the village, came up the path to see the dragon."),
         (f"~What is wrong?~ asked {h}.", f"~Why do you look so sad?~ {h} asked.", f"~Can I help you?~ said {h}."),
         (f"~I am a dragon with no fire,~ said {d}.", f"~I want to breathe fire like the others,~ {d} answered, ~but I can't.~"),
         (f"~Show me what does come out,~ said {h}.", f"{h} thought for a moment. ~Maybe you have something else inside. Just breathe and don't think about fire.~"),
         (f"{d} took a deep breath, and out came {puff}!", f"So {d} breathed in and blew, and out of {d.his} mouth came {puff}.")],
        [(f"~That is wonderful!~ cried {h}.", f"{h} jumped up and down. ~Nobody else can do that!~"), fix],
        [(f"From then on, {d} did not wish for fire anymore.", f"After that day, {d} never worried about fire again.", f"~I like my own kind of breath best,~ {d} told {h} that evening."),
         (f"{d.He} had a gift of {d.his} own, and {d.he} had a friend to share it with.", f"{d.He} had found out that being different can be a good thing.", f"And whenever the village needed {d.him}, {d.he} came with a happy flap of {d.his} wings.")])


def baker_giant(r):
    b = who(r)
    g = being(r, ["Bodo", "Grum", "Humbert", "Olaf", "Tumble", "Dunder"], False, b)
    t = r.choice(TOWNS)
    food = r.choice(["bread", "apple pie", "cinnamon buns", "honey cake"])
    big = {"bread": "a loaf of bread as long as a boat", "apple pie": "an apple pie as wide as a pond", "cinnamon buns": "cinnamon buns as big as barrels", "honey cake": "a honey cake as tall as a house"}[food]
    they = "them" if food == "cinnamon buns" else "it"
    end = r.choice([
        [(f"From that day on, {g} carried water and stones for the village, and {b} baked for him every Sunday.", f"After that, {g} helped to build a new bridge, and every Sunday {b} baked him something special."),
         ("The people learned that a loud voice may only mean an empty belly.", f"Nobody in {t} was afraid of loud footsteps anymore.")],
        [(f"The next winter, when deep snow covered {t}, {g} swept the roads clear with one big hand.", f"Later that year a storm blew down the mill, and {g} set it up again before lunch."),
         (f"~Friends help friends,~ he told {b}, and he smiled.", f"{b} thanked him with a warm treat, of course.")]])
    return tell(r, ["The Baker and the Giant", "The Hungry Giant", f"How {b} Fed a Giant", "The Baker Who Fed a Giant"],
        [["baker", "giant"], ["giant"], ["hungry giant", "baker"]],
        [(f"In the village of {t} there lived a baker named {b}.", f"{b} was the baker in a little village called {t}.", f"Once there was a baker called {b}, who lived in {t}."),
         (f"Every morning {b.he} got up before the sun and lit the oven.", f"{b.His} {food} smelled so good that people came from far away.", f"{b.He} made the best {food} in the whole valley."),
         (f"One morning the ground began to shake. Boom! Boom! Boom!", "One day the cups on the shelves began to rattle, and heavy steps came down the road.", "Then, one foggy morning, a great shadow fell across the street.")],
        [(f"A giant named {g} had come down from the mountain.", f"It was {g} the giant, and his head was higher than the church tower.".replace("church", "clock"), f"There stood a giant. His name was {g}, and he was as tall as ten trees."),
         ("~I am hungry!~ he roared.", "~Food!~ shouted the giant. ~I must have food!~"),
         ("Everyone ran inside and locked the doors.", "The people hid under their beds and closed the shutters.", "Mothers and fathers pulled their children indoors."),
         (f"But {b} looked up and saw a tear on the giant's cheek.", f"Only {b} stayed outside, because {b.he} heard the giant's stomach growl.", f"{b} was frightened too, but {b.he} opened {b.his} window and waved.")],
        [(f"~I will bake for you,~ {b} called. ~Please sit down and wait.~", f"~Anyone who is hungry may eat at my shop,~ said {b}. ~Sit down, please.~"),
         (f"{b.He} gave him everything in the shop, but to {g} it was only one small bite.", f"First {b.he} brought out a whole tray, but the giant ate it all like a single crumb."),
         (f"~I need help,~ {b} told the neighbors. ~He is not angry. He is just hungry.~", f"So {b} knocked on every door. ~Bring flour and butter,~ {b.he} said. ~We can do this together.~"),
         ("One by one, they came out with flour, eggs, and milk.", "Slowly the doors opened, and the people brought sacks of flour and baskets of eggs."),
         (f"They mixed and stirred all day, and at sunset they had made {big}.", f"By evening, after hours of work, there stood in the square {big}.")],
        [(f"{g} ate {they} slowly, and a huge smile spread over his face.", f"The giant took a bite and closed his eyes. ~Oh,~ he whispered, ~that is good.~"),
         ("~Nobody was ever kind to me before,~ he said. ~People always run away.~", "~I am sorry that I shouted,~ he said softly. ~I have been hungry for a week.~"), end])


def three_tasks(r):
    h = who(r, f=True)
    ruler, rn = r.choice([("king", "King"), ("queen", "Queen")])
    he, his = ("he", "his") if ruler == "king" else ("she", "her")
    prize = r.choice(["a white pony", "a school for the village", "a good plow and two oxen for the farm", "a library full of books"])
    job = r.choice(["a farmer", "a weaver", "a miller", "a fisherman"])
    t1 = r.choice([
        (f"~First,~ said the {ruler}, ~bring me water in a basket.~", ("That sounded impossible, because a basket is full of holes.", "The people in the hall laughed, for water runs out of any basket."),
         (f"But it was winter, so {h} filled the basket with ice and carried it in.", f"{h} went out into the frosty yard, filled the basket with snow, and brought it back.")),
        (f"~First,~ said the {ruler}, ~tell me how many stars are in the sky.~", ("Nobody had ever counted them.", "The wise men shook their heads and looked at the floor."),
         (f"~As many as there are hairs on your horse,~ said {h}. ~If you don't believe me, please count them.~", f"{h} poured a cup of sand on the table. ~The same number as these grains,~ she said. ~You may count and see.~"))])
    t2 = r.choice([
        (f"~Next, come to me neither walking nor riding,~ said the {ruler}.", (f"{h} thought about it all night.", f"{h} went home and tried to think, but she had no idea until she saw a child playing."),
         ("In the morning she came hopping on one foot.", "The next morning she came rolling down the hill and in through the gate like a barrel.")),
        (f"~Now bring me a gift that is not a gift,~ the {ruler} said next.", (f"{h} walked up and down the garden, thinking hard.", f"{h} sat under a tree for a long time and wondered what that could be."),
         (f"At last she came back with a small bird in her hands. When the {ruler} reached for it, it flew away.", f"Then she found a sparrow in the barn. She held it out, and the moment the {ruler} took it, it flew out of the window."))])
    t3 = r.choice([
        ((f"~Last, show me the strongest thing in my land,~ said the {ruler}.", f"~Then here is the last task. Find the strongest thing in my land,~ said the {ruler}."),
         (f"Here {h} made a mistake. She brought a big ox, but the ox would not even come through the door.", f"At first {h} pointed at the castle wall, but a little weed was growing through a crack in it."),
         (f"Then she smiled and brought in a mother who was carrying her sleeping baby. ~Love is the strongest,~ she said. ~It never gets tired.~", f"Then she fetched her old grandmother, who had raised seven children. ~Her love is stronger than stone,~ said {h}.")),
        ((f"~The third task is the hardest,~ said the {ruler}. ~Make me forget that I am sad.~", f"The {ruler} sighed. ~For the last task, cheer me up. No one has ever managed it.~"),
         (f"{h} told a joke, but the {ruler} did not even smile.", f"{h} danced and sang, but it did not help."),
         (f"So she sat down and asked, ~Why are you sad?~ The {ruler} talked, and {h} listened until the sun went down.", f"Then she stopped and said, ~Tell me what is wrong.~ And she listened quietly while the {ruler} told her everything."))])
    return tell(r, ["Three Tasks for a Clever Girl", f"Clever {h}", f"{h} and the Three Tasks", f"The {rn}'s Three Tasks"],
        [["clever girl", ruler], ["clever girl"], [ruler, "clever girl"]],
        [(f"Once upon a time, {a(ruler)} wanted to find the cleverest person in the land.", f"There was once {a(ruler)} who loved riddles more than gold.", f"Long ago, {a(ruler)} sent riders to every village with a message."),
         (f"~Whoever can do three tasks for me,~ {he} said, ~may ask for anything.~", f"The one who could do three hard tasks would win a prize, {he} promised."),
         ("Many lords and scholars tried, and all of them failed.", "Princes came in fine coats and went home with red faces.", ""),
         (f"Then {h}, the daughter of {job}, came to the castle.", f"At last a girl named {h} stood at the gate. She was the daughter of {job}."),
         ("Her shoes were dusty, but her eyes were bright.", f"~You are very young,~ said the {ruler}. ~But I can think,~ said {h}.")],
        [t1[0], t1[1], t1[2], (f"The {ruler} looked surprised. ~Well done!~", f"~Very clever,~ said the {ruler}, nodding.", f"The {ruler} could not argue with that.")],
        [t2[0], t2[1], t2[2], ("Everyone in the hall clapped.", "~Nobody has ever solved that one before,~ a guard whispered.", "")],
        [t3[0], t3[1], t3[2]],
        [(f"The {ruler} was quiet for a while and then took {h} by the hand.", f"For a moment nobody spoke. Then the {ruler} stood up and bowed to {h}."),
         (f"~You are clever, and you are kind as well,~ {he} said. ~What do you wish for?~", f"~You have done all three,~ said the {ruler}. ~Now name your prize.~"),
         (f"{h} asked for {prize}, and that was just what she got.", f"~I would like {prize},~ said {h}, and the {ruler} gave it gladly."),
         (f"And whenever there was a hard question in the land, people said, ~Let us ask {h}.~", f"After that, {h} was always welcome at the castle, and the {ruler} often asked for her advice.", f"She went home singing, and the whole village came out to meet her.")])


def wish_well(r):
    h = who(r)
    m = r.choice(["golden fish", "little lamp spirit", "tiny fairy", "silver frog"])
    rescue = {"golden fish": (f"One day {h.he} found a golden fish caught in some old rope on the beach, and {h.he} set it free.", f"One morning a golden fish was stuck in a rock pool, and {h} carried it gently back to the sea."),
              "little lamp spirit": (f"One day {h.he} found an old lamp in the mud and rubbed it clean, and a little spirit floated out.", f"While {h.he} was sweeping the attic, {h.he} polished a dusty lamp. Out came a little lamp spirit, no taller than a spoon."),
              "tiny fairy": (f"One day {h.he} found a tiny fairy stuck in a spider web and helped her out.", f"One evening a tiny fairy fell into the milk bucket, and {h} lifted her out with a spoon."),
              "silver frog": (f"One day {h.he} found a silver frog at the bottom of a dry bucket and carried it to the pond.", f"One hot noon a silver frog lay on the dusty road, and {h} brought it to cool water.")}[m]
    other = r.choice(["mother", "father", "grandmother", "grandfather"])
    oh = "he" if "father" in other else "she"
    ohis = "his" if oh == "he" else "her"
    ohim = "him" if oh == "he" else "her"
    wish = r.choice([
        [(f"{h} thought of {h.his} {other}, who coughed all night in their cold house.", f"Then {h} remembered {h.his} {other}, who was ill and had to stay in bed."),
         (f"~I wish that my {other} would be well again,~ {h.he} said.", f"{h} took a deep breath. ~Please make my {other} healthy,~ {h.he} said."),
         (f"When {h.he} got home, {h.his} {other} was standing at the door with pink cheeks.", f"{h} ran home, and there was {h.his} {other}, singing and sweeping the floor."),
         (f"They hugged for a long, long time.", f"~I feel wonderful,~ {oh} said, and {oh} swung {h} around in {ohis} arms.")],
        [(f"{h} looked at the dry fields, where nothing had grown all year.", f"Then {h} thought of the neighbors, who had almost nothing left to eat."),
         ("~I wish for a garden that has enough for everybody,~ " + f"{h.he} said.", f"~May every field in our village be green,~ said {h}."),
         ("By morning, beans and corn and pumpkins were growing along every path.", "The next day, fat pumpkins and tall corn stood in all the fields."),
         (f"{h} and {h.his} {other} ate well that night, and so did everyone else.", f"{h.His} {other} cooked a huge pot of soup, and all the neighbors came to share it.")]])
    return tell(r, ["A Wish Used Well", f"{h}'s One Wish", f"The {m.title()}'s Gift", "Only One Wish"],
        [["wish"], [m], [m, "wish"]],
        [(f"{h} was a poor {h.kid} who lived with {h.his} {other} at the edge of a village.", f"Once upon a time, a {h.kid} named {h} lived in a tiny house with {h.his} {other}.", f"There was once a {h.kid} called {h}. {h.He} and {h.his} {other} did not have much, but they had each other."),
         rescue,
         (f"~Thank you,~ said the {m}. ~You may have one wish.~", f"The {m} looked at {h.him} and said, ~You were kind to me, so I will give you one wish.~", f"~You helped me,~ said the {m}, ~and now I will help you. Make one wish, but choose with care.~")],
        [(f"One wish! {h} could hardly stand still.", f"{h} was so surprised that {h.he} had to sit down.", f"~May I think about it?~ asked {h}. ~Of course,~ said the {m}."),
         (f"First {h.he} wanted to ask for a chest of gold.", f"{h.His} first idea was a castle with a hundred rooms.", f"At first {h.he} thought of a bed of silk and a mountain of sweets."),
         (f"But then {h.he} shook {h.his} head. ~And what about everybody else?~ {h.he} asked {h.self_}.", f"But what good would that be if the people around {h.him} were unhappy?", f"The more {h.he} thought about it, the less {h.he} wanted it.")],
        [wish],
        [(f"The {m} came back one last time. ~You could have asked for gold,~ it said. ~Are you sorry?~".replace("it said", "she said" if m == "tiny fairy" else "it said"), f"~Don't you want riches?~ asked the {m} the next time they met."),
         (f"~No,~ said {h}. ~I have what I wanted.~", f"{h} laughed. ~I am rich already,~ {h.he} said.", f"{h} shook {h.his} head and smiled. ~This is better.~"),
         ("And that was the truth.", "The best wishes are the ones that make more than one person happy.", f"Then {h} went back home, where a warm supper was waiting.")])


def lighthouse_dark(r):
    k = who(r)
    h = who(r, k)
    rel = r.choice(["granddaughter", "niece"]) if h.f else r.choice(["grandson", "nephew"])
    unc = ("grandmother" if k.f else "grandfather") if rel.startswith("grand") else ("aunt" if k.f else "uncle")
    ship = r.choice(["a fishing boat", "a small sailing ship", "the mail boat", "three fishing boats"])
    sh = "they" if ship.startswith("three") else "it"
    noun = ship.split(" ", 1)[1] if ship.startswith(("a ", "the ")) else "fishing boats"
    why = r.choice(["the wind had broken the glass of the lamp", "rain had got into the oil", "the big lamp had cracked in two"])
    sol = r.choice([
        [(f"Then {h} remembered the mirrors in the house.", f"~What about mirrors?~ cried {h}."),
         (f"They put every candle they owned on the table and set the mirrors behind them.", f"They carried all the candles up the stairs and stood a mirror behind each one."),
         ("The small flames became a hundred flames, and a bright beam went out over the waves.", "The light jumped from glass to glass, and soon the whole window shone.")],
        [(f"~If they can't see us, they must hear us,~ said {h}.", f"Then {h} had an idea. ~Let us use the old bell!~"),
         (f"{h.He} ran to the bell by the door and rang it with all {h.his} strength.", f"Together they pulled the rope of the great brass bell. Clang! Clang! Clang!"),
         ("The sound rolled out over the dark water, again and again.", f"Their arms hurt, but they kept ringing until the {noun} turned away from the rocks.")],
        [(f"~A fire on the hill!~ said {h}. ~They will see that.~", f"{h} pointed at the pile of dry wood in the shed. ~We can make our own light.~"),
         (f"They carried the wood behind a wall, out of the wind, and lit it.", f"They built a great fire in the shelter of the rocks, and the neighbors brought more wood."),
         ("The flames rose higher and higher, until they were as bright as any lamp.", "Soon the whole cliff glowed red and gold.")]])
    return tell(r, ["The Lighthouse That Went Dark", f"{h} and the Lighthouse", "A Light in the Storm", "The Lighthouse Keeper's Helper"],
        [["lighthouse"], ["lighthouse keeper", "storm"], ["lighthouse", rel], ["lighthouse keeper"]],
        [(f"On a cliff above the sea stood a white lighthouse, and {k} was its keeper.", f"{k} had been the keeper of the lighthouse for forty years.", f"An old {k.adult} named {k} took care of the lighthouse on the rocks."),
         (f"Every summer {k.his} {rel} {h} came to stay.", f"{k.His} {rel} {h} lived there too and knew every one of the stairs.", f"{k.He} was teaching {h}, {k.his} {rel}, how to clean the lamp and fill it with oil."),
         (f"~Why must the lamp burn every night?~ {h} once asked. ~Because someone may be out there,~ said {k}.", f"~The sea is wide,~ {k} liked to say, ~and a little light means a lot.~", "")],
        [("One night a terrible storm came up.", "One autumn evening the sky turned black, and the wind began to howl.", "Then came a night of wind and rain, and the waves were as high as houses."),
         ("Suddenly the light went out.", "All at once the great lamp went dark.", "Then, with a crash, everything was black."),
         (f"{k} hurried up the stairs and found that {why}.", f"They climbed up with a lantern and saw that {why}."),
         (f"~And {ship} will come past tonight!~ said {k}. ~Without the light, {sh} will hit the rocks.~", f"Far away, {h} saw {ship} rocking on the sea. Without the light, {sh} would sail onto the rocks.")],
        [(f"{k} tried to fix the lamp, but {k.his} hands were shaking with cold.", f"First they tried to mend the lamp, but it would not burn.", f"{h} waved the lantern from the window, but its light was much too small."), sol],
        [(f"Out at sea, the sailors noticed. Slowly, slowly, the {noun} turned toward the harbor.", f"At last the {noun} came safely into the harbor."),
         (f"In the morning the sea was calm, and the sailors came to say thank you.", "When the sun rose, the storm was over, and the sailors climbed up to the lighthouse with fresh fish and hot rolls."),
         (f"~You saved us,~ they told {h}.", f"~Who thought of that?~ they asked, and {k} pointed proudly at {h}."),
         (f"{h} felt tired and very happy.", f"{h.His} {unc} put an arm around {h.him}. ~One day,~ said {k}, ~you will be a fine keeper.~", f"A new lamp came the next week, and {h} was the one who lit it.")])


def king_laugh(r):
    kf = r.random() < 0.4
    K = "queen" if kf else "king"
    kh, khis, khim = ("she", "her", "her") if kf else ("he", "his", "him")
    h = who(r)
    job = r.choice(["gardener", "cook", "goose keeper", "stable hand", "cleaner"])
    pr = r.choice(["half a bag of gold", "a new house", "a golden chain", "a fine horse"])
    fails = r.choice(["clowns", "jugglers", "jokers"])
    mid = r.choice([
        [(f"One evening {h} had to bring in the supper. On the way to the throne {h.he} slipped on a peel, and the big bowl of pudding flew up into the air.", f"{h} only wanted to bring the {K} some pudding, but {h.he} tripped over a sleeping dog."),
         (f"Plop! It landed on {h.his} own head like a hat.", f"The pudding went up, turned over twice, and came down on {h.his} own head."),
         (f"~Would you like some pudding, Your Majesty?~ {h} asked politely. ~It is a little late.~", f"{h} licked {h.his} nose and said, ~It needs more sugar.~")],
        [(f"One day {h} came in with a goose under {h.his} arm, because it would not stay alone.", f"A goose had followed {h} into the hall, and it waddled straight up to the throne."),
         (f"The goose looked at the {K}, bowed, and stole the crown.", f"It took one look at the shiny crown, grabbed it, and ran."),
         (f"Ten guards ran after it, around and around the table, and all ten fell in a heap.", f"The guards chased it up the stairs and down again, and the goose put the crown on and sat down as if it ruled the land.")],
        [(f"{h} bowed and looked at the {K}'s sad face. ~I don't know any jokes,~ {h.he} said. ~But when did you last play outside, Your Majesty?~", f"One day after the rain, {h} was brave enough to speak. ~Please come out into the garden, Your Majesty,~ {h.he} said. ~There is a very good puddle.~"),
         (f"Nobody had ever asked the {K} that before. So {kh} came along.", f"The {K} frowned, but {kh} followed {h.him} down the stairs."),
         (f"They jumped into the biggest puddle, splash, and the mud went up to the {K}'s crown.", f"{h} slid down the wet hill on a tray, and then the {K} tried it too and landed in the hay.")]])
    return tell(r, [f"The {K.title()} Who Could Not Laugh", f"The {K.title()}'s First Laugh", f"How {h} Made the {K.title()} Laugh"],
        [[K], [K, job], [f"{K} who could not laugh"]],
        [(f"There was once a {K} who could not laugh.", f"Long ago, in a castle with a hundred windows, lived a {K} who never laughed.", f"In a country by the sea there was a {K} with a very long face."),
         (f"{kh.capitalize()} had a gold crown and a soft bed, but {kh} was never merry.", f"{kh.capitalize()} had so much work and so many worries that {kh} had forgotten how.", f"All day {kh} signed papers, and all evening {kh} looked at the rain."),
         (f"Because the {K} was gloomy, the whole castle was gloomy too.", "Even the cats in the castle walked on tiptoe.", "")],
        [(f"~Whoever makes me laugh shall have {pr},~ said the {K}.", f"At last the {K} promised {pr} to anyone who could make {khim} laugh."),
         (f"The best {fails} in the land came and did their tricks.", f"So {fails} came from near and far and tried everything they knew."),
         (f"The {K} only yawned.", f"~Thank you,~ the {K} said each time. ~Next, please.~", f"But the corners of the {K}'s mouth did not move at all."),
         (f"A wise doctor brought a feather and tickled {khis} feet. It did not help.", f"One man told jokes for three days, until he lost his voice.", "")],
        [(f"Now, in the castle there was a young {job} named {h}.", f"{h}, the young {job}, had watched it all from behind the door.", f"{h} worked in the castle as a {job}, and nobody paid much attention to {h.him}."), mid],
        [(f"There was a strange little sound. ~Ha,~ said the {K}.", f"The {K}'s lips began to shake. Then {khis} shoulders shook too."),
         (f"~Ha ha ha!~ {kh.capitalize()} laughed until tears ran down {khis} cheeks.", f"Then {kh} laughed so loudly that the birds flew up from the roof.", f"And then {kh} laughed, and {kh} could not stop."),
         ("Soon everyone in the castle was laughing.", "The guards laughed, the maids laughed, and the sound rang through every hall.")],
        [(f"{h} got {pr}, just as the {K} had promised.", f"~You have earned {pr},~ said the {K}, wiping {khis} eyes."),
         (f"But {h} said that the laugh was the best prize of all.", f"And every Friday after that, the {K} invited {h} to tea, and they were silly together.", f"From then on, the {K} worked in the morning and played in the afternoon, and the castle was a cheerful place.")])


def map_mistake(r):
    h = who(r)
    f = who(r, h)
    pet = r.choice(["a donkey", "a small dog", "a parrot", "a pony"])
    pn = pet.split()[-1]
    goal = r.choice(["the Silver Lake", "the Old Tower", "the Valley of Bells", "the Golden Beach"])
    wrong = r.choice([
        ("a road", "a wide river", "There was no bridge and no boat, only fast brown water"),
        ("a forest", "a dry, stony plain", "There was not a single tree, only stones and wind"),
        ("a gentle hill", "a steep mountain", "Its top was hidden in the clouds")])
    found = r.choice([
        [(f"But behind it they found a hidden meadow that was on no map at all, with a hundred wild horses running in it.", "And there, where nobody had ever looked, lay a green meadow full of wild horses."),
         (f"~If the map had been right,~ said {f}, ~we would never have seen this.~", f"They sat down in the grass and could not stop looking.")],
        [("But on the other side they met an old woman who lived all alone and had not had a visitor for ten years.", "And there, in a round little house, lived an old woman who was overjoyed to see them."),
         ("~A mistake on the map?~ she said. ~Then it is a lucky mistake. Come in and have some soup.~", "She gave them hot soup, and they told stories until the moon came up.")]])
    return tell(r, ["The Map with a Mistake", "A Lucky Mistake", f"{h}, {f}, and the Old Map", "The Wrong Map"],
        [["map", "journey"], ["map with a mistake"], ["journey"], ["old map"]],
        [(f"{h} found an old map in {h.his} grandfather's desk.", f"One rainy day, {h} opened an old chest and found a map inside.", f"At the market {h} bought an old yellow map for one penny."),
         (f"It showed the way to {goal}.", f"A thin red line led from {h.his} own village to {goal}.", f"In the corner someone had written, ~This is the way to {goal}.~"),
         (f"~Let us go there!~ {h.he} said to {h.his} friend {f}.", f"{h.He} showed it to {f}, {h.his} best friend, and they decided to go at once."),
         (f"They packed bread, cheese, and a rope, and took {pet} along.", f"The next morning they set out with two bags and {pet}.")],
        [("For two days everything was just as the map said.", "At first the map was right about every tree and every stone.", "The sun was shining, and the walking was easy."),
         (f"But on the third day, where the map showed {wrong[0]}, they came to {wrong[1]}.", f"Then something was odd. The map showed {wrong[0]}, but in front of them was {wrong[1]}."),
         f"{wrong[2]}.",
         (f"~The map is wrong!~ said {f}. ~We should go home.~", f"~This can't be right,~ said {h}, and {h.he} turned the map upside down. It did not help."),
         (f"{h} felt foolish and sat down on a stone.", f"The {pn} looked at them as if to ask what came next.", "")],
        [(f"First they tried to go around to the left, but there the ground was all swamp.", f"They shouted for help, but only an echo answered.", f"They walked back and forth and argued until both of them were cross."),
         (f"Then {f} said, ~The map can't help us now. Let us use our own eyes.~", f"~Wait,~ said {h}. ~Let us stop looking at the paper and look around.~"),
         (f"So they looked carefully, and soon the {pn} found a narrow path between the rocks.", f"It was the {pn} that found it: a small path, made by deer, behind some bushes."),
         ("Step by step, holding the rope, they made their way across.", "The path was bumpy and slow, but it brought them safely to the other side.", "They followed it all afternoon, and it led them safely around.")],
        [found,
         (f"The next day they reached {goal} as well, and it was lovely.", f"They did find {goal} in the end, and they stayed there for a whole day."),
         (f"Before they went home, {h} took out a pencil and corrected the map.", f"That night, by the fire, {h} drew the new path on the map, very neatly."),
         (f"~For the next travelers,~ {h.he} said.", f"But at the bottom {h.he} wrote, ~Don't forget to look up.~", "And they agreed that the best part of the trip was the part that went wrong.")])


def robot_friend(r):
    b = being(r, ["Bolt", "Tik", "Rusty", "Beep", "Zip", "Dot", "Gizmo"], False)
    h = who(r, b)
    place = r.choice(["a big factory", "a busy airport", "a tall office building", "a toy store"])
    job = {"a big factory": "sorted screws", "a busy airport": "carried suitcases", "a tall office building": "washed windows", "a toy store": "wrapped boxes"}[place]
    tries = r.choice([
        [(f"First {b} tried to be friends with a vending machine, but it only said, ~Please insert a coin.~",), (f"Then he said hello to a traffic light, but it just turned red.", "After that he talked to a lamp post. It was a good listener, but it never answered.")],
        [(f"First he built another robot out of old cans, but it fell apart when he shook its hand.",), (f"Then he read a book called ~How to Make Friends,~ but it did not say where to find one.", "Next he waved at people on the street, but they were all in a hurry.")]])
    meet = r.choice([
        [(f"One evening {b} went to the park and saw a {h.kid} sitting on a bench with a broken kite.", f"On Sunday, in the park, {b} met a {h.kid} whose kite was stuck in a tree."),
         (f"Her name was {h}.".replace("Her", h.His), f"The {h.kid}'s name was {h}."),
         (f"~I can help,~ said {b}, and soon the kite was as good as new.", f"{b} stretched out his long arm and soon made the kite as good as new."),
         (f"~Thank you! Do you want to fly it with me?~ asked {h}.", f"~Would you like to hold the string?~ {h} asked.")],
        [(f"One morning a {h.kid} named {h} stood in the rain and could not find the way home.", f"Then, one rainy evening, he saw a {h.kid} named {h} who was lost."),
         (f"{b} opened the umbrella in his arm and held it over {h.him}.", f"~I have a map in my head,~ said {b}. ~I will walk with you.~"),
         (f"All the way home they talked about stars and sandwiches.", f"On the way they counted puddles, and {h} taught him to jump into them."),
         (f"~Will you come again tomorrow?~ {h} asked at the door.", f"When they reached the house, {h} said, ~Please come and play on Saturday.~")]])
    return tell(r, ["The Robot Who Wanted a Friend", f"{b} the Robot", f"{b} and {h}", "A Friend for a Robot"],
        [["robot"], ["robot", "friend"], ["lonely robot"], ["robot who wanted a friend"]],
        [(f"{b} was a robot who worked in {place}.", f"In {place} there worked a small gray robot named {b}.", f"Once there was a robot called {b}, and he lived in {place}."),
         (f"All day long he {job}, and he never made a mistake.", f"He {job} from morning until night."),
         ("At night, when everyone went home, it was very quiet.", "In the evening the lights went out, and he was all alone.", "When the work was done, nobody said good night to him."),
         (f"~I have two arms, two wheels, and a good battery,~ thought {b}, ~but I don't have a friend.~", f"There was an empty feeling somewhere behind his buttons. ~I think I need a friend,~ said {b}.")],
        tries + [(f"{b}'s lights grew dim.", "~This is harder than it looks,~ he said with a sad little buzz.", "")],
        meet,
        [(f"{b}'s lights blinked green and gold.", f"Something warm went through all his wires.", f"{b} felt a new kind of hum inside."),
         ([f"~I must ask you something,~ he said. ~Are we friends now?~", (f"~Of course we are, silly,~ said {h}.", f"{h} laughed and hugged his cold metal neck. ~Yes!~")],
          [f"~Is this what friends do?~ he asked.", (f"~Yes,~ said {h}, ~this is exactly what friends do.~", f"{h} nodded. ~This is just what friends do,~ {h.he} said.")])],
        [(f"From then on, they met every week.", f"After that, {h} came to see him nearly every day.", "They had a hundred adventures after that, big ones and little ones."),
         (f"And {b} learned that you don't find a friend by looking for one. You find a friend by being one.", f"And when {b} plugged himself in at night, he was never lonely, because tomorrow was something to look forward to.", f"And {b} stored every one of those days in the safest part of his memory.")])


def moon_button(r):
    h = who(r)
    an = r.choice(["owl", "cat", "fox", "goat"])
    spot = r.choice(["in the pond", "in an old bird nest", "at the bottom of the well", "under the apple tree"])
    get = {"in the pond": f"{h} waded in up to {h.his} knees and felt around in the mud until {h.his} fingers touched something smooth.",
           "in an old bird nest": f"{h} climbed up, branch by branch, and there it lay among the twigs.",
           "at the bottom of the well": f"{h} let the bucket down, swung it slowly back and forth, and pulled it up again.",
           "under the apple tree": f"{h} pushed the fallen leaves aside, and there it lay in the grass."}[spot]
    up = r.choice([
        [(f"But how could {h.he} bring it up to the sky?", f"Now there was a new problem. The moon was so far away."),
         (f"{h} threw the button as high as {h.he} could, but it came down again and landed in the cabbages.", f"{h} stood on the roof and reached up, but {h.his} arm was much too short."),
         (f"Then {h} tied it to {h.his} kite and let the night wind carry it up, up, up.", "At last a flock of wild geese flew by, and the leader took the button gently in her beak.")],
        [(f"~Shall I come down?~ asked the moon. ~I have never done that before.~", f"~I can't reach you,~ called {h}. ~Then I must come to you,~ said the moon."),
         (f"At first the moon got stuck behind the chimney.", "It rolled slowly down the sky and almost bumped into the clock tower."),
         (f"But then it floated right over the garden, and {h} sewed on the button with {h.his} strongest thread.", f"Then it sat down softly on the hill, and {h} took a needle and sewed the button on.")]])
    return tell(r, ["The Moon's Lost Button", f"{h} and the Moon", "A Button for the Moon"],
        [["moon"], ["moon", "button"], ["lost button"], ["moon", an]],
        [(f"One night {h} could not sleep, because somebody was sighing outside.", f"Late one night, {h} heard a sad voice at the window.", f"{h} was a {h.kid} who always said good night to the moon, and one night the moon did not answer."),
         (f"{h.He} looked out and saw the moon hanging low above the roof, wrapped in a coat of gray cloud.", f"{h.He} leaned out and saw that the moon was crooked and pale."),
         (f"~What is the matter?~ asked {h}.", f"~Are you ill?~ {h} asked the moon."),
         ("~I have lost a button from my coat,~ said the moon. ~Now the wind blows in, and I am too cold to shine.~", "~My silver button fell off,~ said the moon, ~and my coat won't stay closed. I am so cold that I can hardly shine.~")],
        [(f"~Don't worry,~ said {h}. ~I will find it.~", f"{h} put on {h.his} boots at once."),
         (f"{h.He} offered the moon a brown button from {h.his} own coat, but it was much too small.", f"First {h.he} brought a big wooden button from the sewing box, but it did not shine, and it would not stay on."),
         (f"So {h.he} took a lantern and searched the garden, the road, and the field.", f"Then {h.he} looked along the road and behind the barn, but {h.he} found only a spoon and a snail."),
         (f"By the gate {h.he} met {a(an)}. ~I saw something bright fall down,~ it said. ~It is {spot}.~", f"~Are you looking for a shiny thing?~ asked {a(an)} that was standing by the fence. ~I saw it {spot}.~")],
        [(get,), (f"It was a silver button as big as a plate, and it glowed.", "It was round and cool and as bright as a little lamp.", "What a button it was! It was as large as a pancake and shone like snow."), up],
        [("The moon closed its coat, and at once it began to shine.", "~Ah,~ said the moon, ~that is warm.~ And the whole valley turned silver."),
         (f"~Thank you, {h},~ it said. ~I will not forget you.~", f"The moon smiled down. ~Good night, {h},~ it said, ~and thank you.~"),
         (f"Since then, one moonbeam always falls on {h}'s bed.", f"Every night after that, the moon sent one soft beam through {h}'s window.", f"{h} went back to bed, and {h.he} slept until morning with silver light on {h.his} pillow.")])


def smallest_knight(r):
    h = who(r)
    T = "Dame" if h.f else "Sir"
    K = r.choice(["king", "queen"])
    place = r.choice(["a deep cave", "a high tower", "a narrow tunnel"])
    thing = r.choice(["crown", "golden bell", "key to the city"])
    thief = r.choice(["magpie", "young dragon", "lonely ghost"])
    why = {"magpie": "I only took it because it is so shiny. My nest is dark",
           "young dragon": "I only took it because I am afraid of the dark, and it shines",
           "lonely ghost": "I only took it so that somebody would come and visit me"}[thief]
    gift = {"magpie": f"{h} gave the magpie a bright button from {h.his} cloak", "young dragon": f"{h} gave the dragon {h.his} little lantern", "lonely ghost": f"{h} sat down and played three games of cards with the ghost"}[thief]
    return tell(r, ["The Smallest Knight", f"{T} {h} the Small", f"{T} {h} and the {thing.title().replace('To The','to the')}"],
        [["knight"], ["smallest knight"], ["knight", thief], ["small knight", K]],
        [(f"{T} {h} was the smallest knight in the castle.", f"Of all the knights in the land, {T} {h} was the smallest.", f"There was once a knight named {T} {h}, who was no taller than a table."),
         (f"{h.His} helmet fell over {h.his} eyes, and {h.his} horse was really a pony.", f"{h.He} needed a ladder to climb onto {h.his} horse.", f"{h.His} sword was as short as a bread knife."),
         (f"The big knights were not unkind, but they never took {h.him} along.", f"~Stay here and watch the gate,~ the big knights always said.")],
        [(f"One day the {K}'s {thing} was gone.", f"Then, one windy morning, someone stole the {thing}."),
         (f"A guard had seen something run away with it and hide in {place}.", f"The tracks led to {place} far behind the forest."),
         (f"The big knights put on their heavy armor and rode off at once.", "All the strong knights rode out with flags and trumpets."),
         (f"But the way in was so narrow that they got stuck.", f"They pushed and pulled, but in their armor they did not fit through the opening."),
         ("~We can't get in,~ they said, and they rode home with dented helmets.", "They came back in the evening, very tired and a little ashamed.")],
        [(f"~Let me try,~ said {T} {h}.", f"{h} stepped forward. ~I may be small,~ {h.he} said, ~but maybe small is what we need.~"),
         (f"Some of them smiled, but the {K} nodded.", f"~Go,~ said the {K}, ~and be careful.~"),
         (f"{h} took off {h.his} armor and crawled inside on {h.his} hands and knees.", f"With a lantern in one hand, {h.he} slipped through the gap as easily as a mouse."),
         (f"It was dark, and {h.his} heart beat fast, but {h.he} kept going.", f"Twice {h.he} wanted to turn back, and twice {h.he} went on."),
         (f"At the end sat {a(thief)} with the {thing}.", f"And there, in the last corner, {h.he} found {a(thief)}, and next to it lay the {thing}.")],
        [(f"{h} did not draw {h.his} sword. ~Why did you take it?~ {h.he} asked.", f"~Please don't be angry,~ it said. {h} sat down and asked what was wrong."),
         f"~{why},~ said the {thief}.",
         (f"So {gift}, and the {thief} gave back the {thing}.", f"{h} understood that very well. {cap(gift).replace(str(h), h.He, 1)}, and then they carried the {thing} home together.")],
        [(f"When {h} came back, the {K} held a feast.", "All the bells rang when the smallest knight came home."),
         (f"~You did what none of us could do,~ said the biggest knight, and he knelt down so that they were the same height.", f"The big knights lifted {h} onto their shoulders, and for once {h.he} was the tallest of all."),
         (f"After that, nobody ever told {h.him} to stay and watch the gate.", f"~It is not the size of the knight,~ said the {K}. ~It is the size of the heart.~")])


RIDDLES = [("What has a bed but never sleeps, and a mouth but never eats", "a river", "the water running under the bridge"),
           ("What gets bigger the more you take away from it", "a hole", "a mouse digging at the side of the road"),
           ("What can fill a whole room but weighs nothing at all", "light", "the sun shining between the clouds"),
           ("What has teeth but cannot bite", "a comb", "the messy fur on the troll's head"),
           ("What goes up when the rain comes down", "an umbrella", "a woman on the far bank with something rolled up under her arm"),
           ("What has hands but cannot clap", "a clock", "the tall tower of the town on the far side")]


def troll_riddle(r):
    h = who(r)
    q, ans, hint = r.choice(RIDDLES)
    errand = r.choice(["take medicine to {} aunt", "bring {} goats to market", "visit {} grandmother", "carry a basket of eggs to town"]).format(h.his)
    wr = r.choice(["a fish", "a turnip", "an old boot", "a cow", "a snowflake"])
    wr2 = r.choice(["a mountain", "a spoon", "a bee", "a wheel"])
    tn = r.choice(["Grub", "Mossy", "Old Knuckle", "Bog", "Gruff"])
    back = r.choice([
        [(f"The troll looked so sad that {h} stopped. ~Do you want another riddle?~ {h.he} asked.", f"{h} was already across when {h.he} heard a sigh. ~Now I have no riddle left,~ said the troll."),
         (f"~I know lots of them. I will tell you one every time I come by.~", f"~Then I will bring you a new one next week,~ {h.he} promised."),
         (f"And so the troll and {h} became friends, and the bridge became the merriest bridge in the land.", f"And {h.he} kept the promise. Soon {tn} knew a hundred riddles and more jokes than anybody.")],
        [(f"~Why do you keep the bridge closed?~ asked {h}.", f"~Does nobody ever stop and talk to you?~ asked {h}."),
         (f"The troll scratched his ear. ~If I let people pass, they just walk on. With a riddle, they stay a while.~", f"~No,~ the troll said quietly. ~That is why I ask riddles.~"),
         (f"So on the way home {h} brought him a piece of cake, and they sat on the bridge and let their feet hang down.", f"~You could just say good morning,~ said {h}. The troll tried it the next day, and people stopped to chat with him until sunset.")]])
    return tell(r, ["The Bridge and the Riddle", "The Troll's Riddle", f"{h} and the Troll", f"{tn} the Troll"],
        [["troll", "bridge"], ["troll"], ["riddle"], ["troll", "riddle"]],
        [(f"{h} had to {errand}, and the only way led over an old stone bridge.", f"One fine morning, {h} set out to {errand}.", f"There was once a {h.kid} named {h}, who had to {errand}."),
         ("", "The birds were singing, and the road was dry.", "It was a long walk, and there was just one bridge over the river."),
         (f"But under the bridge lived a troll called {tn}.", f"When {h.he} came to the bridge, a big hairy troll climbed out from under it. His name was {tn}."),
         (f"~Stop!~ said the troll. ~Nobody may cross unless they answer my riddle.~", f"~No one gets across my bridge,~ he growled, ~without the answer to my riddle.~"),
         (f"~All right,~ said {h}, though {h.his} knees shook a little.", f"{h} put down {h.his} bag. ~I like riddles,~ {h.he} said.")],
        [(f"The troll cleared his throat. ~{q}?~", f"~Listen well,~ said the troll. ~{q}?~"),
         (f"~You may try three times,~ he added.", f"~Three guesses,~ he said, and he held up three fat fingers."),
         (f"~Is it {wr}?~ asked {h}. ~Ha! No,~ said the troll.", f"{h} made a guess. ~{cap(wr)}?~ The troll laughed so hard that the stones shook. ~Wrong!~"),
         (f"~Then it must be {wr2}.~ ~Wrong again,~ said {tn}.", f"{h} tried again. ~{cap(wr2)}?~ The troll shook his big head."),
         (f"Now {h} had just one guess left.", "There was only one more chance.")],
        [(f"{h} did not hurry. {h.He} sat down, ate an apple, and looked around.", f"~May I think?~ asked {h}. ~Take your time,~ said the troll. ~I have all day.~"),
         (f"Then {h.he} noticed {hint}.", f"After a while {h.his} eyes fell on {hint}."),
         (f"{h} jumped up. ~I know! It is {ans}!~", f"~{cap(ans)}!~ {h} cried. ~The answer is {ans}!~".replace(f"The answer is {ans}", "That must be it")),
         (f"The troll's mouth fell open. ~Right,~ he said slowly. ~You may cross.~", "~Nobody ever got that one,~ said the troll, and he stepped aside.")],
        back)


def magic_brush(r):
    h = who(r)
    giver = r.choice(["an old woman at the market", "a traveler with a long white beard", "a kind wizard"])
    gg = giver.split(" ", 1)[1].split(" at ")[0].split(" with ")[0]
    need = r.choice([("a poor fisherman had lost his boat", "a boat", "the fisherman", "sailed away in it and waved"),
                     ("a neighbor had no cow and no milk for her baby", "a brown cow", "the neighbor", "milked it at once and laughed"),
                     ("a farmer's well had run dry", "a stream of cool water", "the farmer", "drank from it with both hands")])
    greedy = r.choice(["a rich merchant", "a vain duke", "a greedy mayor"])
    gn = greedy.split()[-1]
    trick = r.choice([
        [(f"~Paint me a mountain of gold!~ said the {gn}.", f"~I want gold,~ the {gn} said, ~a whole mountain of it.~"),
         (f"So {h} painted the mountain, but far away, on the other side of a wide blue sea.", f"{h} painted a gold mountain, but {h.he} put it on an island at the end of the sea."),
         (f"Then {h.he} painted a ship, and the {gn} jumped in and sailed off to get it.", f"The {gn} asked for a ship as well, climbed in, and was gone before supper."),
         (f"The trip took a whole year, and the {gn} learned to row, to cook, and to say please.", f"It was a long trip, and when the {gn} came home at last, he was brown, tired, and much nicer.")],
        [(f"The {gn} took the brush away and painted a pile of gold himself.", f"He grabbed the brush and painted gold coins as fast as he could."),
         ("But for him the paint stayed only paint.", "But the gold stayed flat on the paper, because his heart was not in it."),
         (f"~It works only when you paint for someone else,~ said {h}.", f"~You must think of another person while you paint,~ {h} told him."),
         (f"The {gn} tried again. He thought of his old nurse and painted her a warm shawl, and it became real. He was so surprised that he cried.", f"Then the {gn} remembered his little sister, who loved oranges. He painted one orange, and it rolled off the page. He smiled for the first time in years.")]])
    return tell(r, ["The Magic Brush", f"{h}'s Magic Brush", "The Brush That Painted True"],
        [["magic brush"], ["magic brush", gn], ["painter"], ["magic paintbrush"]],
        [(f"{h} loved to draw, but {h.he} had no paper and no paint.", f"There was once a {h.kid} named {h}, who drew pictures everywhere.", f"In a poor village lived a {h.kid} called {h}, who wanted to be a painter."),
         (f"{h.He} drew with a stick in the sand and with a wet finger on stones.", f"With a piece of coal {h.he} drew birds on every fence."),
         (f"One day {giver} saw {h.his} pictures and gave {h.him} a brush.", f"Then {giver} stopped to look, and put a small brush into {h.his} hand."),
         (f"~Use it well,~ said the {gg}, and was gone.", f"~This brush is for someone with a good heart,~ said the {gg}.")],
        [(f"That evening {h} painted a little bird, and it shook its wings and flew away!", f"{h} painted a red apple to try it out. The apple rolled off the wall, and it tasted sweet."),
         (f"Everything {h.he} painted became real.", f"{h} could not believe it. The brush was magic!"),
         (f"The next morning {h.he} heard that {need[0]}.", f"Soon {h.he} learned that {need[0]}."),
         (f"So {h} painted {need[1]}, and {need[2]} {need[3]}.", f"{h} set to work and painted {need[1]}. How happy they were! {cap(need[2])} {need[3]}.".replace("How happy they were! ", ""))],
        [(f"But {greedy} heard about the brush and came to {h}'s door.", f"After a while the news reached {greedy}, who came to {h}'s house at once."), ("", f"His coat had silver buttons, and his voice was loud.", f"~Now you will paint for me,~ he said."), trick],
        [(f"{h} kept on painting for those who needed help.", f"And {h}? {h.He} went on painting, one small good thing every day."),
         ("The brush grew thin and old, but its magic never ran out.", f"~It is a good brush,~ {h.he} always said, ~but you still have to look and see what people need.~", f"People said that the real magic was not in the brush at all, but in {h}.")])


def well_answered(r):
    h = who(r)
    t = r.choice(TOWNS)
    prob = r.choice([
        ("My best friend won't talk to me", "What did you say to your friend?", f"{h} thought about it, and {h.his} face grew hot. {h.He} had called the friend's drawing ugly", f"So {h} went to say sorry, and the two friends drew a new picture together, a huge one with a whale"),
        ("I can't learn to whistle", "How often have you tried?", f"{h} counted. It was only four times", f"So {h} practiced every day on the way to school, and after a week a thin, clear whistle came out"),
        ("My bean plant will not grow", "Where does it live?", f"{h} thought of the dark corner behind the stove", f"So {h} put the plant on the sunny window sill and gave it water, and soon it had nine green leaves"),
        ("My little brother is always in my way", "What does he want?", f"{h} had never thought about that. Maybe he only wanted to play too", f"So {h} let the little brother hold the flag in the pirate game, and it was the best game of all")])
    return tell(r, ["The Well That Answered", f"{h} and the Talking Well", "The Wise Old Well"],
        [["talking well"], ["well"], ["well that answered"], ["wise well", "village"]],
        [(f"In the middle of {t} there was a well so deep that nobody could see the bottom.", f"There was an old well in {t}, with moss on its stones.", f"Behind the last house of {t} stood a round stone well."),
         ("People said that it answered questions.", "Grandmothers said that the well could talk, but nobody had heard it for a long time.", "Long ago, it was said, the well used to speak."),
         (f"{h} did not know if that was true, but one gray afternoon {h.he} needed help.", f"One day {h}, who had a problem, decided to try it.")],
        [(f"{h.He} leaned over the edge and called, ~{prob[0]}! What should I do?~", f"~Hello?~ {h.he} called down. ~{prob[0]}. What can I do?~"),
         (f"~Do, do, do,~ said the well.", f"At first there was only an echo."),
         (f"~That is no help at all,~ said {h}, and {h.he} threw a pebble in. Plip!", f"{h} was about to leave. {h.He} dropped a penny into the water and waited."),
         (f"Then a deep, cool voice rose up. ~{prob[1]}~", f"Suddenly a slow voice came from far below. ~{prob[1]}~"),
         (f"{h} almost fell over.", f"{h}'s hair stood on end, but it was a friendly voice.", "")],
        [f"{prob[2]}.",
         (f"~Oh,~ said {h}.", f"For a while {h.he} said nothing.", f"~I see,~ {h.he} whispered."),
         ("~You had the answer all along,~ said the well. ~I only asked the question.~", "~Now you know,~ said the well kindly. ~The rest is up to you.~"),
         f"{prob[3]}."],
        [(f"The next day {h} came back to say thank you.", f"Afterward {h} ran all the way back to the well."),
         (f"~You are very wise,~ {h.he} said.", f"~How did you get so wise?~ {h.he} asked."),
         ("~I am only deep and quiet,~ said the well. ~It is easy to think in a quiet place.~", "~People come and talk, and I listen,~ said the well. ~That is all there is to it.~"),
         (f"From then on, {h} visited the well whenever {h.he} had something to think about.", f"And when other children had troubles, {h} did what the well had done. {h.He} asked a good question and then listened.", f"{h} sat with the well until the first star came out, and they were quiet together.")])


def no_rain(r):
    h = who(r)
    t = r.choice(TOWNS)
    elder = r.choice(["Grandmother Olga", "Old Marta", "Aunt Bea"])
    cause = r.choice([
        [(f"On the very top of the mountain {h.he} found a fat gray cloud, fast asleep.", f"At the top lay a big rain cloud, snoring softly between two rocks."),
         (f"{h} shouted and clapped, but the cloud only turned over.", f"~Wake up!~ cried {h}. The cloud pulled a bit of mist over its ears."),
         (f"Then {h} sat down and sang the song that the farmers sing when they plant the seeds.", f"So {h.he} tickled it with a long blade of grass, very gently, under its chin."),
         ("The cloud opened one eye. ~Is it spring already?~ it asked. ~I have slept too long!~", "~Oh dear,~ said the cloud, yawning. ~Am I late?~")],
        [(f"High up {h.he} found a small cloud hiding behind a rock.", f"Behind the highest rock {h.he} discovered a little gray cloud that was trembling."),
         (f"~Come down to us,~ said {h}. ~Please.~ But the cloud shook itself.", f"~Please come,~ {h} begged, but the cloud would not move."),
         ("~Everybody groans when I come,~ it said. ~They say, what bad weather, and they run inside.~", "~Nobody likes rain,~ it sniffed. ~They only like the sun.~"),
         (f"~We were wrong,~ said {h}. ~We miss you. Look how brown our fields are.~", f"{h} told it about the thirsty cows and the empty jars. ~We will dance when you come,~ {h.he} promised.")]])
    return tell(r, ["The Village Without Rain", f"{h} and the Rain Cloud", "The Cloud on the Mountain"],
        [["village without rain"], ["rain cloud", "village"], ["rain cloud"], ["cloud", "mountain"]],
        [(f"It had not rained in {t} for a whole year.", f"Once there was a village called {t} where the rain had stopped falling.", f"All spring and all summer the people of {t} waited for rain."),
         ("The river was only a line of stones, and the fields were brown.", "The corn hung its head, and the ducks walked around looking for the pond.", "The grass was like straw, and dust lay on every window."),
         ("The people tried everything. They beat drums, and they dug deep holes, but no water came.", "They dug a new well, but it was dry. They carried water from far away, but it was never enough.")],
        [(f"~The clouds are made on the mountain,~ said {elder}. ~Somebody should go and ask.~", f"{elder}, the oldest woman in the village, said, ~When I was small, the rain came from the mountain.~"),
         (f"The grown-ups were too tired to climb, so {h} said, ~I will go.~", f"~Then I will climb up and see,~ said {h}, who was only nine."),
         (f"They gave {h.him} the last full bottle of water.", f"{elder} gave {h.him} a bottle of water and a warm shawl."),
         (f"On the way {h} met a thirsty little tree, and {h.he} gave it half of the water.", f"It was hot, and {h.he} wanted to drink it all, but {h.he} shared it with a lizard that could hardly walk.", f"The path was steep, and {h.he} had to rest many times.")],
        [cause],
        [(f"The cloud picked {h} up and floated down the mountain.", f"~Hold on tight,~ said the cloud, and it carried {h} home on its soft back."),
         ("First there was one drop. Then there were ten. Then the rain came pouring down.", f"Over {t} it took a deep breath, and down came the rain."),
         ("The people ran out of their houses and held up pots, cups, and hats.", "Everyone danced in the mud, even the mayor.")],
        [(f"A week later the fields were green again.", "By the end of the month, the river was singing and the ducks had their pond back."),
         (f"And in {t}, when it rains, people still look up and say, ~Thank you.~", f"Since that day, nobody in {t} has ever complained about a rainy day.", f"{h} waved to the cloud every time it passed, and it always dropped one extra drop on {h.his} nose.")])


def clock_back(r):
    h = who(r)
    t = r.choice(TOWNS)
    m = who(r, h, f=r.random() < 0.5)
    fx = r.choice([
        [("People had supper first and breakfast last.", "The baker's bread turned back into dough.", "Cut grass grew long again, and melted snowmen stood up in the yards."),
         ("The mayor's beard grew shorter and shorter, until he looked like a schoolboy.", "At school the children forgot a little more every day.", "The leaves jumped up from the ground and stuck themselves back on the trees.")]])
    cause = r.choice([
        [(f"Behind the biggest wheel {h.he} found a tiny mouse, running on it the wrong way.", f"There, on the main wheel, ran a small mouse, and it was running backward."),
         (f"~Why are you doing that?~ asked {h}.", f"~Stop, please!~ cried {h}. ~What are you doing?~"),
         ("~My birthday was yesterday,~ said the mouse, ~and nobody came. I want to have it again.~", "~Yesterday I had such a nice day,~ said the mouse, ~and I did not want it to be over.~"),
         (f"~You can't keep a day by turning it back,~ said {h}. ~But tomorrow could be nice too. I will bring cheese.~", f"{h} thought about that. ~What if I come tomorrow with a cake? You need tomorrow for that.~"),
         ("The mouse stopped. Then it turned around and ran the other way.", "The mouse smiled, hopped off the wheel, and gave it a push forward.")],
        [(f"Up among the wheels {h.he} found a note. ~I am tired of always going forward,~ it said. ~Signed, the clock.~", f"~I want to see where I came from,~ said a deep, ticking voice. It was the clock itself!"),
         (f"{h} patted the old wood. ~You must be very tired,~ {h.he} said.", f"~Did nobody ever thank you?~ asked {h}."),
         (f"{h.He} fetched oil and a soft cloth and cleaned every wheel until it shone.", f"So {h} oiled the wheels, dusted the bells, and told the clock how much the town needed it."),
         (f"~All those people get up, eat, and go to bed with you,~ said {h}.", f"~Thank you for every hour,~ {h.he} said at the end."),
         ("The clock gave a happy bong. Slowly, its hands began to move the right way.", "There was a click, and a tock, and then the hands moved forward.")]])
    return tell(r, ["The Clock That Ran Backward", "Backward Time", f"{h} and the Town Clock", "The Clock in the Tower"],
        [["clock"], ["clock that ran backward"], ["town clock"], ["clock", "town"]],
        [(f"In the town of {t} stood a tall clock tower.", f"The clock of {t} was two hundred years old, and it had never been late.", f"Everybody in {t} lived by the big clock on the square."),
         ("One Monday morning it went tock-tick instead of tick-tock.", "But one day the hands stopped, shivered, and began to go backward.", "Then, on a foggy morning, it struck five after it had struck six."),
         ("And when the clock went backward, everything else did too.", "Soon strange things happened all over town."), fx],
        [(f"{m}, the clockmaker, pulled and pushed the hands, but they sprang back.", f"They called {m}, the clockmaker. {m.He} tried every tool in {m.his} box, but it was no use."),
         (f"~I don't understand it,~ said {m}. ~Nothing is broken.~", f"~I am too big to get inside,~ {m} said."),
         (f"{h} was {m}'s helper, and {h.he} was small. ~I will crawl in,~ {h.he} said.", f"Then {h}, a {h.kid} who often helped {m.him}, said, ~I can fit in there.~"),
         (f"With a candle in {h.his} hand, {h.he} climbed in between the wheels.", f"{h.He} squeezed through the little door and climbed up past the ropes and bells.")],
        [cause],
        [("Tick-tock went the clock, and all over town things went forward again.", f"At once everything in {t} was as it should be. Breakfast came first, and supper came last."),
         (f"{m} shook {h}'s hand. ~You will be a great clockmaker,~ {m.he} said.", f"~How did you do it?~ asked {m}. ~I just listened,~ said {h}."),
         ("And every year on that day, the whole town brings the clock tower a cake.", f"{h} still likes to remember nice days. But {h.he} likes to look forward to new ones even more.", f"That night {h} went to bed, and in the morning it was a brand-new day.")])


def tailor_thread(r):
    h = who(r)
    t = r.choice(TOWNS)
    two = r.choice([("two brothers", "They had not spoken for years because of an old cow", "the brothers", "He"), ("two neighbors", "They argued every day about a fence", "the neighbors", "They"), ("two sisters", "They were angry about a broken jug", "the sisters", "They")])
    giver = r.choice(["an old spider", "a gray-haired peddler", "a lady in a silver coat"])
    g = giver.split(" ", 1)[1].split(" in ")[0]
    return tell(r, ["The Tailor's Invisible Thread", f"{h} the Tailor", "The Thread Nobody Could See"],
        [["tailor"], ["invisible thread"], ["tailor", "magic thread"]],
        [(f"{h} was a tailor in the town of {t}.", f"In a crooked little house in {t} lived a tailor named {h}.", f"There was once a tailor called {h}, who could sew anything."),
         (f"{h.He} was poor, but {h.his} stitches were small and neat.", f"{h.He} mended coats for old people and never asked them for money.", f"From early morning, {h.he} sat by the window and sewed."),
         (f"One cold evening {giver} came in from the rain, and {h} made a warm place by the stove.", f"One night, in a storm, {h} let in {giver} and shared {h.his} supper."),
         (f"~For your kindness,~ said the {g}, ~I give you this thread.~", f"In the morning the {g} said, ~Take this thread. It is all I have.~"),
         (f"{h} looked at the spool, but it seemed to be empty. ~It is invisible,~ said the {g}. ~It mends what cannot be seen.~", f"~I see nothing,~ said {h}. ~You will feel it,~ said the {g}. ~It is for things that are torn on the inside.~")],
        [(f"{h} tried it on a pair of trousers, but the hole stayed open.", f"First {h.he} sewed a pocket with it, and the pocket fell right off."),
         (f"~What use is it?~ {h.he} thought, and {h.he} put the spool on the shelf.", f"{h} laughed at {h.self_} and put the thread in a drawer."),
         (f"Then one day {two[0]} came to the shop. {two[1]}.", f"Soon after that, {two[0]} came in at the same time. {two[1]}."),
         ("Each of them wanted a button sewn on, and neither looked at the other.", "Both needed a new button, and they stood back to back and waited with grim faces.")],
        [(f"{h} remembered the thread. {h.He} took it out and sewed one button on each coat with the very same piece.", f"Quietly, {h} used the invisible thread for both coats, one stitch here and one stitch there."),
         ("The two walked out, one to the left and one to the right.", "Without a word they paid and left."),
         ("But after ten steps they felt a soft tug and turned around.", "But they did not get far. Something pulled at them, very lightly, close to the heart."),
         (f"~I miss the old days,~ said one. ~So do I,~ said the other.", f"~It was a silly fight,~ one of them said. ~Very silly,~ said the other, and they began to laugh."),
         (f"They went home arm in arm, talking all the way.", f"When {h} looked out of the window, {two[2]} were hugging in the middle of the street.")],
        [(f"After that, {h} put one stitch of the thread into everything {h.he} made.", f"From that day on, {h} knew what the thread was for."),
         (f"Fathers and sons, old friends and new ones, all felt a little closer in {h}'s coats.", f"A lonely widow got a scarf with it, and soon her table was full of guests."),
         (f"The spool never grew empty, for kindness does not run out when you use it.", f"And if you ever feel a gentle tug when you think of a friend, maybe {h} sewed your buttons too.", f"No one in {t} ever saw the thread, but everybody knew that it was there.")])


def paper_boat(r):
    h = who(r)
    s = who(r, h)
    col = r.choice(["blue", "red", "yellow", "white"])
    pas = r.choice(["ladybug", "ant", "beetle", "cricket"])
    friend = r.choice(["duck", "turtle", "frog"])
    places = r.choice([("a mill", "a town with seven bridges"), ("a field of sheep", "a big stone castle"), ("a dark forest", "a busy market")])
    return tell(r, ["A Boat Made of Paper", "The Paper Boat", f"The Little {col.title()} Boat", f"The {pas.title()} and the Paper Boat"],
        [["paper boat"], ["paper boat", pas], ["boat", "river"], ["little boat"]],
        [(f"{h} folded a boat out of {col} paper.", f"On a rainy day {h} made a little boat from a sheet of {col} paper.", f"Once a {h.kid} named {h} took a sheet of {col} paper and folded it into a boat."),
         (f"Inside it {h.he} wrote, ~Hello, I am {h}. Who are you?~", f"On its side {h.he} wrote, ~My name is {h}. Please write back.~"),
         (f"Then {h.he} ran to the stream and set it on the water.", f"When the rain stopped, {h.he} put it into the stream behind the house."),
         (f"~Good luck!~ {h.he} called, and off it went.", f"The boat wobbled, turned around once, and sailed away.")],
        [(f"Soon a voice cried, ~Help!~ It was {a(pas)}, sitting on a wet leaf.", f"After the first bend, a small {pas} fell from a branch and landed in the boat with a bump."),
         (f"~Come aboard,~ said the boat. ~I have plenty of room.~", f"~May I stay?~ asked the {pas}. ~I would like that,~ said the boat."),
         (f"Together they sailed past {places[0]} and {places[1]}.", f"They floated by {places[0]}, and later by {places[1]}, and they looked at everything."),
         (f"~I never knew the world was so big,~ said the {pas}.", "At night they counted the stars in the water.", "")],
        [("But a paper boat can't stay dry forever.", "After two days the paper became soft."),
         ("Water came in at the bottom, and the boat began to sink.", "The boat leaned to one side, and its corners began to droop."),
         (f"The {pas} carried the water out drop by drop, but more came in.", f"~I will hold you up!~ cried the {pas}, but it was much too small."),
         (f"Just then a {friend} swam by. ~Climb on my back, both of you,~ it said.", f"~Need some help?~ asked a {friend}, and it gently pushed them to the bank."),
         (f"In the warm sun the boat dried, and the {pas} rubbed wax from a bee's nest on its sides.".replace("bee's nest", "beehive"), f"They rested on a warm stone until the boat was dry. Then a friendly bee brought wax, and the {pas} spread it on the paper."),
         ("Now the water ran right off.", "After that, not one drop came in.")],
        [(f"A week later the boat came to the sea, where {a(s.kid)} named {s} was playing on the beach.", f"At last the river grew wide, and there on the beach stood {a(s.kid)} named {s}."),
         (f"{s} picked up the boat and read the words.", f"~Look, a letter!~ cried {s}, unfolding one corner with care."),
         (f"{s.He} drew a crab on a new sheet, wrote ~I am {s}, and I live by the sea,~ and the postman promised to find {h} in the villages up the river.", f"{s.His} mother worked at the post office, and she helped {s.him} find the village up the river where {h} lived. So {s} wrote back.")],
        [(f"The two became pen friends, and the next summer they met on that beach.", f"In the summer {h} came to visit, and the two of them played by the waves all day."),
         (f"The boat stood on {s}'s window sill, and the {pas} slept in it every night.", f"The old boat had a place of honor on a shelf, with the {pas} as its captain."),
         ("It was only a piece of paper, but it had carried a friendship all the way to the sea.", f"~You came a long way,~ {h} told it. And the boat looked proud.")])


def star_barn(r):
    h = who(r)
    fam = r.choice(["grandfather", "father", "grandmother", "mother"])
    fh = "he" if "father" in fam else "she"
    an = r.choice(["cow", "old horse", "donkey", "goat"])
    a2 = r.choice([x for x in ["hens", "sheep", "geese"]])
    up = r.choice([
        [(f"First they tried the long ladder, but it did not reach even the lowest cloud.", f"{h} climbed to the top of the tallest tree, but the sky was still far away."),
         (f"Then {h} had an idea. ~Stars are pulled up by wishes,~ {h.he} said. ~Let us all wish at the same time.~", f"~What makes a star rise?~ asked {h}. ~Songs,~ said the star. So {h} began to sing the song {h.his} {fam} always sang at bedtime."),
         (f"{h}, the {an}, and all the {a2} closed their eyes, and the star began to float.", f"The {an} hummed, the {a2} joined in, and little by little the star rose from the straw."),],
        [(f"~Jump!~ said {h}. The star jumped, but it only landed in the hay again.", f"{h} threw the star up as high as {h.he} could, but it came down in the water trough with a hiss."),
         (f"~You are too weak,~ said {h}. ~You must rest first.~ So {h.he} fed it honey on a spoon for three days.", f"~You need your strength back,~ said {h}, and {h.he} kept the star warm in {h.his} wool hat for three nights."),
         (f"On the third night it was shining so brightly that it rose up all by itself.", f"Each night it grew brighter, and at last it lifted off from {h.his} hand.")]])
    return tell(r, ["The Star That Fell into a Barn", "The Star in the Barn", f"{h} and the Little Star", "The Fallen Star"],
        [["star"], ["star", "barn"], ["fallen star"], ["star", an]],
        [(f"{h} lived on a farm with {h.his} {fam}. One night {h.he} could not sleep.", f"On a small farm far from any town lived a {h.kid} named {h}, with {h.his} {fam}. One evening {h.he} stood at the window and counted the stars.", f"One clear winter night, {h} was looking out of the farmhouse window."),
         ("All at once there was a flash and a soft bump.", "Suddenly a bright line ran across the sky, and something went thump.", "All of a sudden a light shot down from the sky."),
         (f"It came from the barn. {h} pulled on {h.his} boots and ran outside.", f"{h} ran to the barn, and light was shining through all the cracks."),
         (f"There, in the hay, between the {an} and the {a2}, sat a star.", f"In the straw next to the {an} lay a little star, no bigger than a melon, and the {a2} were all awake and staring.")],
        [([f"~Ouch,~ said the star.", (f"~Are you hurt?~ asked {h}. ~Only a little.~", f"{h} knelt down beside it. ~What happened to you?~")],
          [f"~Excuse me,~ said the star in a small voice. ~Where am I?~", f"~You are in our barn,~ said {h}. ~What happened?~"]),
         ("~I leaned over too far, because I wanted to see what a farm looks like,~ it answered. ~And then I fell.~", "~I was playing tag with my brothers,~ it answered, ~and I slipped.~"),
         (f"It looked up at the hole in the roof. ~Now my place in the sky is empty, and the sailors will miss me.~", "A bright tear ran down one of its points. ~My mother will be looking for me.~"),
         (f"~Then we must get you home,~ said {h}.", f"~Don't cry,~ {h} said. ~We will find a way.~")],
        [up],
        [("Up it went, through the hole in the roof and into the dark.", "It flew out through the roof like a spark from a fire."),
         (f"~Goodbye!~ it called. ~Look for me above the chimney!~", f"~Thank you!~ it called down. ~I will always look after your farm.~"),
         (f"{h} waved until it was only a small, bright dot.", f"{h} stood in the yard and waved with both arms.")],
        [(f"In the morning {h.his} {fam} wondered about the hole in the roof.", f"~How did that hole get there?~ asked {h.his} {fam} at breakfast."),
         (f"~A star fell in,~ said {h}. And because the hay was still glowing a little, {h.his} {fam} believed {h.him}.", f"{h} told the whole story, and {h.his} {fam} listened and smiled. ~Then we will put a window there,~ {fh} said, ~so that you can see it.~"),
         (f"Ever since then, one star twinkles twice when {h} says good night.", f"And that night, right above the chimney, one star winked at {h}.")])


def princess_repairs(r):
    h = who(r, f=True)
    par = r.choice(["king", "queen"])
    ph = "he" if par == "king" else "she"
    phis = "his" if par == "king" else "her"
    small = r.choice(["clocks, chairs, and squeaky doors", "toys, kettles, and music boxes", "wheels, lamps, and broken fiddles"])
    pb = r.choice([
        ("the castle bridge would not come down", "All the guests for the summer feast were waiting on the other side", f"{h} climbed up to the great chain and saw that a bird had built its nest in the wheel", f"She moved the nest very gently to a safe ledge, put oil on the wheel, and turned it", "The bridge came down as softly as a feather"),
        ("the big pump in the square stopped working", "There was no water for the people or the horses", f"{h} opened the pump and found that a leather ring inside had worn out", f"She cut a new ring from her own riding boot and screwed everything tight", "Clear water splashed into the buckets again"),
        ("the bell for the fog would not ring", "Ships were coming in, and the fog was thick", f"{h} climbed the tower and saw that the rope had slipped off its hook", f"She tied herself to a beam, leaned out, and put the rope back where it belonged", "Dong, dong, went the bell, and every ship came home safely")])
    return tell(r, ["The Princess Who Repaired Things", f"Princess {h}'s Toolbox", f"Princess {h} Fixes It"],
        [["princess"], ["princess who repaired things"], ["princess", "toolbox"], ["princess", par]],
        [(f"Princess {h} did not care for dolls or dancing.", f"There was once a princess named {h}, who always carried a hammer.", f"Once upon a time, there lived a princess called {h}, who had oil on her fingers and a screwdriver in her hair."),
         (f"She liked to repair {small}.", f"If something was broken, she wanted to know why, and she fixed {small}.", f"She took apart {small}, and she put them together again better than before."),
         (f"~Princesses do not repair things,~ said the {par}. ~We have people for that.~", f"Her {'father' if par=='king' else 'mother'}, the {par}, shook {phis} head. ~What will people say?~"),
         (f"So {h} worked at night, by candlelight, and hid her toolbox under the bed.", f"~But I like it,~ said {h}. The {par} only sighed.")],
        [(f"Then one day {pb[0]}.", f"One morning something bad happened: {pb[0]}."),
         f"{pb[1]}.",
         (f"The {par} called for the guards, and they pulled with all their strength, but it did not help.", f"Ten strong men pushed and banged, and that only made it worse."),
         (f"The {par} sent for a master builder, but he lived three days away.", f"~What shall we do?~ cried the {par}."),],
        [(f"{h} came down the stairs with her toolbox. ~May I have a look?~ she asked.", f"~Please let me try,~ said {h}, rolling up her silk sleeves."),
         (f"The {par} was too worried to say no.", f"The {par} looked at her for a moment and then nodded."),
         f"{pb[2]}.", (f"~So that is it,~ she said.", f"~Aha!~ said {h}.", ""), f"{pb[3]}.", f"{pb[4]}."],
        [("Everybody cheered.", "The people threw their hats into the air.", f"~Hurray for Princess {h}!~ shouted the crowd."),
         (f"The {par} hugged her, oil and all. ~I was wrong,~ {ph} said.", f"~I am proud of you,~ said the {par}, and {ph} did not mind the black spots on {phis} sleeve.")],
        [(f"The next week {h} got a real workshop with a big window.", f"For her birthday {h} got the finest set of tools in the land."),
         (f"On her door hung a sign: ~Princess {h}. I fix things.~", "Children came from all over town, and she taught them how to use a saw and a drill."),
         (f"And when she became queen, she was good at mending quarrels too.", f"Even the {par} came by sometimes, to learn how to hold a hammer.", "")])


def wizard_hat(r):
    w = being(r, ["Wizzle", "Aldo", "Marvin", "Baldwin", "Quill", "Orwin"], False)
    h = who(r, w)
    spell = r.choice([("make the soup hot", "the soup turned into a green duck"), ("light the candles", "the candles began to sing"), ("clean the floor", "the floor was covered in daisies"), ("call the cat", "seventeen umbrellas flew in")])
    sp2 = r.choice([("fix a broken cup", "the cup ran away on tiny legs"), ("stop the rain", "it rained buttons"), ("make his beard shorter", "his beard turned into spaghetti")])
    sol = r.choice([
        [(f"{h} looked inside the hat. It was dusty and full of old crumbs, and a moth was living in it.", f"~When did you last clean it?~ {h} asked, looking inside. Nobody ever had."),
         (f"So {h.he} brushed it, washed it in warm water, and hung it in the sun.", f"They washed the hat with soap, sewed up its holes, and let it dry in the wind."),
         ("~Ahh,~ said the hat. ~Now I can think again!~", "The hat gave a great sneeze. ~That is better,~ it said. ~It all comes back to me.~"),],
        [(f"~Maybe the hat is just old,~ said {h}. ~My grandpa forgets things too. He writes them down.~", f"{h} stroked the hat. ~You don't have to remember everything,~ {h.he} said. ~We can write it down.~"),
         (f"So all winter {h} sat with a pen, and the hat told {h.him} every spell it still knew.", f"They took a thick book, and whenever the hat remembered a spell, {h} wrote it in."),
         (f"And what the hat had forgotten, {w} and {h} found out again by trying.", "Page by page, the book filled up with blue ink.")]])
    return tell(r, ["The Wizard's Forgetful Hat", f"{w} the Wizard", "The Hat That Forgot", f"{h} and the Wizard's Hat"],
        [["wizard"], ["wizard", "hat"], ["forgetful hat"], ["magic hat"]],
        [(f"The wizard {w} had a tall blue hat that knew every spell in the world.", f"There was once a wizard named {w}, and all his magic came from his hat.", f"In a crooked tower lived {w}, a wizard with a talking hat."),
         ("Whenever he needed a spell, the hat whispered it into his ear.", "The hat told him the magic words, and he said them out loud."),
         ("But the hat was very old, and one day it began to forget.", "One autumn, though, something went wrong with the hat.")],
        [(f"{w} wanted to {spell[0]}. The hat whispered, ~Um, hocus something,~ and {spell[1]}.", f"When {w} tried to {spell[0]}, the hat mumbled the wrong words, and {spell[1]}."),
         (f"Then he tried to {sp2[0]}, and {sp2[1]}.", f"The next day he wanted to {sp2[0]}, but {sp2[1]}."),
         ("~Oh dear,~ said the hat. ~I am so sorry.~", "~I had it a minute ago,~ said the hat sadly.", ""),
         (f"{w} shook the hat and even shouted at it, but that only made it cry.", f"{w} bought a new red hat, but it knew no spells at all, and the old one cried in the cupboard.")],
        [(f"{h}, a {h.kid} who brought the milk every morning, saw the mess.", f"Just then {h} came up the stairs. {h.He} was the {h.kid} who brought the wizard his bread."),
         (f"~What happened here?~ asked {h}, and {w} told {h.him} everything.", f"~Can I help?~ {h.he} asked. ~I don't think anyone can,~ said {w}."), sol],
        [(f"The next spell {w} tried worked perfectly.", f"Soon {w} could do magic again, and better than before."),
         (f"{w} thanked {h} and bowed so low that his beard touched the floor.", f"~I was impatient,~ said {w}. ~You were kind, and that worked better.~"),
         (f"He asked {h} to be his pupil, and the hat was delighted.", f"From then on, {h} came every afternoon to learn magic."),
         ("And if a spell still went wrong now and then, all three of them just laughed.", "As for the hat, it got the softest hook in the tower, right next to the fire.")])


def treasure_not_gold(r):
    h = who(r)
    c = being(r, ["Barnacle", "Salt", "Briggs", "Marlow"], None, h)
    box = r.choice([
        ("seeds", "Only small brown seeds, hundreds of them", "planted them on the bare hill behind the harbor", "In three years there was an orchard, with apples, pears, and plums for the whole town"),
        ("books", "Books, nothing but old books", "carried them home and read them aloud in the harbor every evening", "Soon every child in town could read, and people came from far away to hear the stories"),
        ("letters", "Not one coin, only a bundle of letters", "took them to the people whose names were on them", "They were letters from sailors of long ago, full of love, and many old people cried happy tears")])
    ship = r.choice(["the Seagull", "the Merry Wind", "the Blue Dolphin", "the Lucky Star"])
    return tell(r, ["A Treasure That Was Not Gold", f"{h} and the Treasure Chest", "The Best Treasure", f"The Voyage of {cap(ship)}"],
        [["treasure"], ["treasure", "captain"], ["ship", "treasure"], ["treasure that was not gold"]],
        [(f"{h} sailed on {ship} with Captain {c}.", f"Captain {c} had a ship named {ship[4:]}, and {h} was the youngest sailor on it.", f"When {h} was ten, {h.he} went to sea with Captain {c} on {ship}."),
         (f"The captain had looked for treasure all {c.his} life.", f"All {c.his} life, the captain had dreamed of gold."),
         (f"One day they found a bottle with a map in it.", f"In a faraway harbor {c.he} bought a treasure map from an old sailor.", "One evening a parrot landed on the deck with a map tied to its leg."),
         (f"~Gold!~ cried Captain {c}. ~There must be gold!~", f"~At last,~ said the captain. ~We will be rich!~")],
        [("They sailed for forty days, through fog and sun.", "For weeks they saw nothing but water and sky.", "A storm tore one sail, and they mended it with blankets."),
         ("Then they came to a small island with three palm trees.", "At last they saw an island shaped like a turtle."),
         ("First they dug by the wrong tree and found only a rusty pot.", "They dug a whole day in the wrong place, because they had held the map upside down."),
         (f"On the second day {h}'s spade hit something hard. It was a chest!", f"Then {h} counted the steps again, very carefully. Clunk! There was a chest.")],
        [("The captain broke the lock and looked inside.", "With shaking hands the captain lifted the lid."),
         f"~{box[1]}!~ cried Captain {c}.".replace("Only small", "Only small"),
         (f"{c.He} sat down in the sand and hid {c.his} face in {c.his} hat.", f"~No gold at all,~ {c.he} said, and {c.he} was so sad that {c.he} could not eat."),
         (f"But {h} looked at the {box[0]} for a long time. ~Somebody thought these were worth hiding,~ {h.he} said.", f"~Wait,~ said {h}. ~Why would anyone bury {box[0]}? Maybe they are worth more than we think.~")],
        [(f"When they were home again, {h} {box[2]}, and the captain helped.", f"Back home, {h} and Captain {c} {box[2]}."), f"{box[3]}.",
         (f"Everyone thanked the old captain, and {c.he} was invited to supper every night.", f"The captain, who used to be gruff and lonely, now had friends in every house.")],
        [(f"~Are you still sorry that it was not gold?~ asked {h} one day.", f"One evening {h} asked, ~Would you rather have found gold, Captain?~"),
         (f"~Gold?~ said the captain. ~Gold would be spent by now.~", f"Captain {c} laughed. ~Not for all the gold in the sea,~ {c.he} said."),
         ("They watched the sun go down over the harbor, and neither of them needed anything more.", "And that was how the captain found the treasure after all.", "")])


def singing_mountain(r):
    h = who(r)
    t = r.choice(TOWNS)
    inst = r.choice(["flute", "fiddle", "tin whistle", "trumpet"])
    cause = r.choice([
        [(f"Near the top {h.he} found a cave, and a big stone had rolled in front of it.", f"High up, a pile of stones had fallen over the mouth of a cave."),
         (f"{h} put {h.his} ear to a crack. Very softly, something was humming inside.", f"The wind wanted to go in, but it could not get through."),
         (f"{h.He} pushed, but the stones were too heavy. So {h.he} ran down and fetched the whole village.", f"{h} pulled at the stones until {h.his} hands were sore. Then {h.he} called for help, and all the neighbors climbed up."),
         ("They pulled the stones away, one by one, and the wind blew into the cave like breath into a horn.", "Together they rolled the rocks aside. The wind rushed in, and a deep, sweet note came out.")],
        [(f"At the top {h.he} sat down and asked, ~Mountain, why are you so quiet?~", f"~What is wrong, dear mountain?~ asked {h} when {h.he} reached the top."),
         ("~I have sung alone for a thousand years,~ said the mountain. ~Nobody ever sings back.~", "~I did not think that anybody was listening,~ the mountain answered in a low voice."),
         (f"{h} told it how much everyone missed the song, but the mountain did not believe {h.him}.", f"~We all listen!~ said {h}. ~Every night!~ But the mountain only sighed."),
         (f"So {h.he} took out {h.his} {inst} and played the mountain's own song. Down in the valley, the people heard it and began to sing along.", f"Then {h} began to play the song on {h.his} {inst}. One by one, the people in the valley came out of their doors and joined in.")]])
    return tell(r, ["The Singing Mountain", f"{h} and the Singing Mountain", "The Mountain That Stopped Singing"],
        [["mountain"], ["singing mountain"], ["mountain", inst], ["singing mountain", "village"]],
        [(f"Above the village of {t} stood a mountain that could sing.", f"There was once a mountain that sang.", f"The people of {t} fell asleep every night to the song of the mountain."),
         (f"Every evening a low, gentle song rolled down into the valley of {t}.", "Each night it hummed a soft tune, and even the babies stopped crying."),
         ("But one evening it was silent.", "Then, one spring, the singing stopped."),
         ("The babies cried, the cows gave no milk, and nobody slept well.", "Without the song the village felt empty, and people became cross with each other.")],
        [(f"Some men shouted up at the mountain, but it did not answer.", f"The mayor sent a letter tied to a goat, but the goat ate it."),
         (f"~I will go and find out what happened,~ said {h}, a {h.kid} who played the {inst}.", f"In the village lived a {h.kid} named {h}, who played the {inst}. ~I will go up,~ {h.he} said."),
         (f"{h.He} climbed all day, past the last trees and the first snow.", f"{h.He} started before sunrise, with bread in one pocket and the {inst} on {h.his} back.")],
        [cause],
        [("And then the mountain sang.", "At that moment the ground began to hum."),
         ("It sang louder and more beautifully than ever before.", "The song rolled over the fields, the roofs, and the river."),
         (f"{h} laughed and danced among the rocks.", "People hugged each other, and a baby laughed in its sleep.", "")],
        [(f"From then on, {h} climbed up once a month to make music with the mountain.", f"Since that day, the people of {t} sing back every evening, so that the mountain is never alone."),
         ("If you go there on a quiet night, you may hear it too.", "And everyone sleeps well in that valley.", f"And {h} still falls asleep with that song in {h.his} ears.")])


def ice_queen(r):
    h = who(r)
    flower = r.choice(["snowdrop", "primrose", "bluebell", "crocus", "daisy"])
    q = r.choice(["Queen Isolde", "Queen Freda", "Queen Crystal", "Queen Nieve"])
    pet = r.choice(["a white fox", "a snow owl", "a white hare"])
    mid = r.choice([
        [(f"First {h} dug a hole in the ice and put a seed in it, but it froze at once.", f"{h} planted the seed in the snow, but nothing happened, day after day."),
         (f"{h.He} took the seed out again. ~A seed needs warmth,~ {h.he} said. ~Hold it in your hand.~", f"~It is too cold here,~ said {h}, digging it out again. ~You must keep it in your own two hands.~"),
         (f"~My hands are made of frost,~ said the queen. But she tried, and {h} put {h.his} warm hands around hers.", f"The queen was afraid, but she closed her cold fingers around the seed, and {h} told her funny stories until she laughed."),
         ("The laugh was what did it. Something in her grew warm, and a green tip pushed up between her fingers.", "After a long while, something tickled her. A tiny green leaf was growing in her palm!")],
        [(f"{h} brought a pot of earth from home and put a seed in it, but it would not grow in the icy hall.", f"{h} put a seed into a pot of good brown earth, but the cold wind in the hall was too strong."),
         (f"~We need the sun,~ said {h}. ~Open the shutters.~", f"~When did you last open the windows?~ asked {h}."),
         ("~Then my ice will melt,~ said the queen. She thought about it all night.", "~If I let the sun in, my palace will drip,~ the queen said, and she walked up and down for hours."),
         ("In the morning she opened one window with her own hand, and a gold beam fell on the pot. After nine days there was a green leaf.", "At dawn she opened the smallest window. The sun came in, some ice dripped, and slowly a green tip came out of the earth.")]])
    return tell(r, ["The Ice Queen's Garden", f"{h} and the Ice Queen", f"A {flower.title()} for the Ice Queen"],
        [["ice queen"], ["ice queen", "garden"], ["ice queen", flower], ["garden of ice"]],
        [(f"Far in the north, {q} lived in a palace of ice.", f"In a land where it was always winter, there lived an ice queen whom everyone called {q}.", f"Long ago, in the coldest corner of the world, {q} sat on a throne of ice."),
         ("She had a garden, but everything in it was made of ice: ice roses, ice trees, and ice birds that could not sing.", "Her garden was full of flowers, but they were all carved from ice, and they had no smell."),
         ("It glittered, but it was silent, and the queen was lonely.", f"Her only friend was {pet}.", "")],
        [(f"One day a {h.kid} named {h} lost the way in the snow and knocked at her door.", f"Then a young traveler named {h} came to the gate, blue with cold."),
         (f"The queen gave {h.him} a fur coat and showed {h.him} the garden.", f"~Come in,~ said the queen. ~I will show you my garden.~"),
         (f"~It is pretty,~ said {h}, ~but does nothing ever grow?~", f"{h} looked around politely. ~It is very shiny,~ {h.he} said. ~But where are the real flowers?~"),
         ("~I have never seen a real flower,~ said the queen.", "The queen looked down. ~Real flowers do not come here,~ she said."),
         (f"{h} found one {flower} seed in {h.his} pocket.", f"In {h.his} pocket {h} had a single {flower} seed. ~Let us try,~ {h.he} said.")],
        [mid],
        [(f"And then it opened, a real {flower}.", f"A few days later the {flower} bloomed."),
         ("The queen bent down and smelled it, and two warm tears ran down her face.", f"~Oh,~ whispered {q}, ~it is soft.~"),
         ("Where the tears fell, the snow melted, and there was grass.", "She touched it with one finger, as if it might break.")],
        [(f"Before {h} went home, the queen asked {h.him} to come back every spring.", f"The queen sent {h} home in her own sled, with thanks and a promise to visit."),
         (f"Every year {h} brought new seeds, and each year the green part of the garden was a little bigger.", f"Every spring {h} came with a bag of seeds, and the garden grew."),
         ("There is still ice in it, but now birds sing there too.", f"And {q} is not lonely anymore, for everybody wants to see the garden where ice and flowers grow side by side.")])


def letter_bottle(r):
    h = who(r)
    o = who(r, h)
    isl = r.choice(["Pebble Island", "Gull Island", "Windy Island", "Moss Island"])
    t = r.choice(["fishing village", "harbor town", "little town by the sea"])
    why = r.choice([
        ("my boat is broken", f"They brought new boards and nails, and together they repaired the boat", f"{o} could sail wherever {o.he} liked again"),
        ("I have nobody to talk to", f"They brought a basket of cakes and stayed until evening", f"Every week after that, someone rowed over to visit {o}"),
        ("my garden was washed away", "They brought potatoes, beans, and three hens", f"By summer, {o}'s garden was green again")])
    mid = r.choice([
        [(f"{h} showed the letter to the harbor master, but he laughed. ~There is no such island on my chart.~", f"~{isl}?~ said the sailors. ~Never heard of it.~"),
         (f"{h} did not give up. {h.He} asked the oldest woman in town, and she nodded. ~You can see it from the cliff on a clear day,~ she said. Her son had a good boat, and he offered to take {h} there.", f"But {h} kept asking, until at last an old net mender said, ~Oh yes. It lies behind the gray rocks. I will take you there.~")],
        [(f"{h} wanted to row out at once, but the waves pushed {h.his} little boat back to the beach.", f"That same day {h} rowed out alone, but the current was too strong, and {h.he} had to turn around."),
         (f"So {h.he} went to Aunt Polly, who had the biggest fishing boat. She read the letter and nodded. ~We will sail tomorrow,~ she said.", f"Then {h.he} ran to a fisherman named Uncle Bert. He read the letter and got his sails ready.")]])
    return tell(r, ["A Letter in a Bottle", f"The Letter from {isl}", f"{h} Finds a Bottle"],
        [["letter in a bottle"], ["bottle", "island"], ["message in a bottle"], ["letter", "island"]],
        [(f"{h} lived in a {t} and walked along the beach every morning.", f"One morning after a storm, {h} went down to the beach.", f"There was a {h.kid} named {h}, who collected shells. One day {h.he} found something much better on the beach."),
         ("Between the seaweed lay a green bottle.", f"Something clinked against {h.his} shoe. It was a bottle with a cork."),
         (f"Inside was a piece of paper, rolled up tight.", f"{h} pulled out the cork and shook it, and out slid a letter."),
         (f"~Dear finder,~ it said. ~I am {o}. I live on {isl}, and {why[0]}. Please come.~", f"The writing was shaky. ~To anyone who finds this: {why[0]}. Please visit me on {isl}. Yours, {o}.~")],
        [(f"{h} read it three times.", f"~Someone is waiting,~ thought {h}. ~I have to do something.~", ""), mid],
        [("The next morning the sea was calm, and they set sail.", f"At sunrise they set out, with {h} sitting in the front and looking ahead."),
         ("After three hours they saw smoke rising from a chimney.", "The gulls flew ahead of them, as if they knew the way.", "Toward noon, a small green island came out of the mist."),
         (f"On the shore stood an old {o.adult}, waving a red scarf.", f"An old {o.adult} came running down to the water, waving both arms."),
         (f"~You found my letter!~ cried {o}. ~I threw it into the sea a year ago.~", f"~I sent ten bottles,~ said {o}, laughing and crying. ~I thought no one would ever come.~")],
        [f"{why[1]}.", (f"~How can I thank you?~ asked {o}. ~Just write again,~ said {h}.", f"{o} gave {h} the most beautiful shell on the island, a pink one that hummed like the sea."), f"{why[2]}."],
        [(f"{h} was quiet and happy when {h.he} thought about it.", f"Back home, {h} put the green bottle on {h.his} window sill."),
         (f"~It was only a small piece of paper,~ {h.he} thought, ~but it brought a friend.~", f"One evening {h.he} wrote a letter of {h.his} own, put it into a bottle, and wondered who would find it.", "Sometimes it takes a long time for a call to be heard, but it is always worth answering.")])


def soldier_stew(r):
    s = being(r, ["Bastian", "Karl", "Jasper", "Conrad", "Matthias"], False)
    c = who(r, s)
    t = r.choice(TOWNS)
    thing = r.choice(["an old boot button", "a smooth round stone", "a rusty nail", "a wooden spoon"])
    tn = thing.split()[-1]
    v = r.sample(["carrots", "onions", "potatoes", "cabbages", "beans", "turnips"], 3)
    w = r.sample(["an old woman", "the miller", "the shoemaker", "the blacksmith", "the teacher"], 3)
    return tell(r, ["The Old Soldier's Stew", f"The Magic {tn.title()}", "A Stew for Everyone"],
        [["soldier", "pot of stew"], ["old soldier"], ["pot of stew"], ["soldier", "village"]],
        [(f"An old soldier named {s} was walking home from far away.", f"Once an old soldier was on his way home. His name was {s}.", f"{s}, an old soldier with holes in his boots, came to the village of {t} one cold evening."),
         ("He was tired and had not eaten for two days.", "His pack was empty, and so was his stomach."),
         (f"He knocked at one door after another in {t} and asked for a little supper.", f"In {t} he asked for food at every house."),
         ("~We have nothing,~ said the people. ~It was a bad year.~", "But each family had hidden its food, for they were afraid there would not be enough."),
         (f"Only a {c.kid} named {c} looked at him kindly. ~I am hungry too,~ {c.he} said.", f"A {c.kid} named {c} sat on the steps. ~Everyone says no to everyone here,~ {c.he} told him.")],
        [(f"The soldier smiled. ~Then let us cook,~ he said. ~I have {thing}, and it makes the best stew in the world.~", f"~Well,~ said {s}, ~I have {thing}. With it I can make a stew for the whole village.~"),
         (f"{c} fetched a big pot and filled it with water, and they lit a fire in the square.", f"They made a fire in the square, and {c} borrowed the biggest pot in the village."),
         (f"In went the {tn}. Plop! The soldier stirred and tasted.", f"{s} dropped the {tn} into the hot water and stirred."),
         (f"It tasted like warm water, but {c} saw him wink.", f"~Hmm, good,~ he said loudly. One by one, windows opened.", "People came out to look, because nobody had ever seen such a thing."),],
        [(f"~It is almost perfect,~ said {s}. ~Only a few {v[0]} are missing.~", f"~Last time I had {v[0]} in it,~ he said with a sigh. ~That was a stew for a king.~"),
         (f"~I may have some,~ said {w[0]}, and hurried off to get them.", f"~I think I can find a few,~ said {w[0]}, and soon they were in the pot."),
         (f"Then {w[1]} brought {v[1]}, and {w[2]} brought {v[2]}.", f"After that, {w[1]} came back with {v[1]}, and {w[2]} came with a basket of {v[2]}."),
         ("Someone had salt, someone had herbs, and someone even had a piece of ham.", "Everybody ran home and came back with something small.", ""),
         ("The smell drifted through every street.", "Soon the stew was thick and brown, and it smelled wonderful.")],
        [("They brought out tables and lanterns and ate together until they were full.", "That night the whole village sat around the fire and ate, and there was enough for all."),
         (f"~What a {tn}!~ people said. ~Who would have thought it?~", f"~And all that from one {tn}!~ said {w[0]}."),
         ("Somebody played a fiddle, and they danced under the stars.", f"{s} told them stories, and they laughed until late.", "")],
        [(f"In the morning the soldier gave the {tn} to {c}.", f"Before he went on his way, {s} put the {tn} into {c}'s hand."),
         ([f"~But it is not magic, is it?~ whispered {c}.", (f"~The magic is that everyone gives a little,~ said the soldier.", f"The soldier smiled. ~No,~ he said, ~but sharing is.~")],
          [f"~I know the secret,~ {c} said softly.", (f"~Then keep it well,~ said {s}. ~When everybody shares, there is always enough.~", f"~Good,~ said {s}. ~Then you can cook it again without me.~")]),
         (f"And every winter after that, {c} hung up the big pot in the square.", f"The village never forgot it, and no door in {t} stayed closed to a hungry traveler again.")])


def giant_birthday(r):
    g = being(r, ["Bodo", "Grum", "Humbert", "Olaf", "Dunder", "Toro"], False)
    h = who(r, g)
    t = r.choice(TOWNS)
    why = r.choice(["because he was afraid to step on somebody", "because people ran away from his big feet", "because he was so shy"])
    present = r.choice([
        ("a scarf", [("Every person in the village knitted one piece.", "They all got out their wool and began to knit."), ("Red, blue, green, and yellow, the pieces were sewn together until the scarf was as long as the main road.", "Then they sewed all the pieces together, and the scarf went around the village twice.")]),
        ("a birthday cake", [("Every oven in the village was lit.", "They mixed the dough in a bathtub and stirred it with oars."), ("They stacked the cakes in the meadow, one on top of the other, until they were as high as the mill.", "In the end the cake was so big that it had to be pulled by six horses.")]),
        ("a song", [("All of them met in the meadow and practiced, from the baby to the oldest man.", "The teacher wrote the words, and everyone learned them by heart."), ("For one voice it would have been too soft for a giant's ears, but three hundred voices were just right.", "They sang together, as loudly as they could, so that it would reach the ears of a giant.")])])
    return tell(r, ["The Giant's Birthday", f"A Present for {g}", f"{h} and the Giant"],
        [["giant"], ["giant", "birthday"], ["lonely giant"], ["giant", "birthday present"]],
        [(f"Behind the hills of {t} lived a giant named {g}.", f"There was once a giant called {g}, who lived behind the hills near {t}."),
         (f"He never came to the village, {why}.", f"He kept to himself, {why}."),
         (f"One day {h}, a {h.kid} from the village, heard a sound like far-off thunder.", f"One evening a {h.kid} named {h} was looking for a lost lamb and heard a deep sob."),
         (f"It was {g}, and he was crying.", f"Behind a rock sat {g} with tears as big as buckets.")],
        [(f"~Why are you crying?~ asked {h}.", f"~What is the matter?~ {h} shouted up to him."),
         ("~Tomorrow is my birthday,~ said the giant, ~and I have never had a present.~", "~I will be three hundred years old tomorrow,~ the giant said, ~and no one has ever wished me a happy birthday.~"),
         (f"{h} gave him {h.his} own apple, but in the giant's hand it was as small as a pea.", f"{h} searched {h.his} pockets and gave him a marble, but it rolled between his fingers and was lost.", f"{h} wanted to hug him, but {h.his} arms only went around his thumb."),
         (f"~A present for a giant must be big,~ thought {h}, ~and I can't make it alone.~", f"So {h} ran home as fast as {h.he} could.")],
        [(f"~We will make {present[0]} for {g}!~ {h.he} told the people in the square.", f"{h.He} rang the village bell. ~Tomorrow is {g}'s birthday,~ {h.he} said. ~Let us make him {present[0]}!~"),
         ("~For a giant?~ they said. ~Isn't he dangerous?~", "At first people shook their heads."),
         (f"~He is sad,~ said {h}. ~He is just like us, only bigger.~", f"~Have you ever asked him?~ said {h}. Nobody had."),
         ("They were a little ashamed, and they set to work.", "Then an old farmer stood up. ~The child is right,~ he said. ~Come on, everybody.~"), present[1]],
        [(f"In the morning they all marched over the hills to {g}.", f"At noon {h} led {g} by the little finger to the meadow, where everybody was waiting."),
         ("~Happy birthday!~ they shouted.", "~Surprise!~ cried three hundred people."),
         (f"The giant looked at {present[0]}, and his chin began to shake.".replace("looked at a song", "heard the song").replace("looked at a ", "looked at the "), f"For a moment {g} could not say a word."),
         ("~Is that for me?~ he whispered, and even his whisper shook the trees.", "Then he laughed, and it was a laugh like warm thunder.")],
        [(f"From then on, {g} came to the village every Sunday, walking very carefully.", f"After that, the giant often came to visit, and he always looked where he put his feet."),
         ("He lifted the children up so that they could see the sea.", "He let the children slide down his arms, and he fixed the highest roofs without a ladder."),
         (f"And he never forgot {h}'s birthday either.", "He was never lonely on his birthday again.")])


def desert_water(r):
    h = who(r)
    cam = r.choice(["Sandy", "Humphrey", "Dusty", "Biscuit"])
    x = r.choice([("a small fox with a sore paw", "fox"), ("an old man with a bent back", "old man"), ("a thirsty bird with a blue head", "bird")])
    p, ph = x[1], ("he" if x[1] == "old man" else "it")
    phis = "his" if ph == "he" else "its"
    goods = r.choice(["salt", "silk", "lamps", "dates"])
    return tell(r, ["Across the Desert", f"{h} and the Camel", "The Last Drop of Water", "The Hidden Spring"],
        [["desert"], ["desert", "camel"], ["camel"], ["traveler", "desert"]],
        [(f"{h} was a young trader who crossed the desert with a camel named {cam}.", f"With a load of {goods} and a camel called {cam}, {h} set out across the desert.", f"A {h.kid} named {h} had to bring {goods} to a city on the other side of the desert, with only a camel named {cam} for company."),
         ("The sun was hot, and the sand went on and on like a yellow sea.", "There was sand in front, sand behind, and a burning blue sky above."),
         (f"~Five days,~ said {h}, ~and water for six. That is enough.~", f"{h} had counted the water carefully. There was enough for six days, and the trip took five.")],
        [("On the third day a sandstorm came.", "But on the second night a great wind began to blow."),
         ("When it was over, the path was gone, and every hill looked different.", f"{h} and {cam} lay down behind a rock, and in the morning the road was buried."),
         (f"{h} tried to go by the sun, but by evening {h.he} came to {h.his} own footprints again.", f"They walked and walked, and at the end of the day they were back where they had started."),
         ("The storm had torn the water bags, and only one bottle was left.", f"And there was worse. The wind had blown most of the water bottles away, and just one was left.")],
        [(f"Then they met {x[0]}.", f"In the shade of a dead tree sat {x[0]}."),
         (f"~Water, please,~ said the {p}.", f"~I am so thirsty,~ the {p} said in a weak voice."),
         (f"{h} looked at the last of the water. It was so little.", f"{h} thought about it, for {h.he} was thirsty too."),
         (f"~We will share,~ {h.he} said, and {h.he} gave the {p} half of it.", f"Then {h.he} poured half of it into {h.his} hands and held them out to the {p}.") if p != "old man" else (f"~We will share,~ {h.he} said, and {h.he} gave the {p} half of it.", f"Then {h.he} filled a cup and held it out to the {p}.")],
        [(f"The {p} drank, and {phis} eyes grew bright. ~You shared when you had almost nothing,~ {ph} said. ~Now follow me.~", f"~Thank you,~ said the {p}. ~I know this desert well. Come.~"),
         (f"{cam} did not want to go, because it was the wrong way, or so it seemed.", f"{h} was not sure, but {cam} sniffed the air and began to trot."),
         ("They went through a narrow gap between two red cliffs.", "Behind a high hill of sand there was a crack in the rocks, just wide enough for a camel."),
         ("And there, in the shade of palm trees, was a spring of cool, clear water.", "On the other side lay a green valley with palm trees and a little blue lake.")],
        [(f"They drank until they could drink no more, and {cam} put {('his' if cam in ('Humphrey','Dusty') else 'her')} whole head in.", f"{h} laughed out loud and jumped in with {h.his} shoes on."),
         (f"~From here the city is only a day away,~ said the {p}.", f"The {p} showed them the right road, and the next evening they saw the towers of the city."),
         (f"{h} never forgot it. On every trip after that, {h.he} carried one extra bottle, just for a stranger.", f"When {h} was old, {h.he} told {h.his} grandchildren, ~Half a bottle saved my life, the half I gave away.~", f"{h} drew the spring on all the maps, so that no traveler would be thirsty there again.")])


def rocket(r):
    h = who(r)
    p = being(r, ["Button", "Waffles", "Pepper", "Noodle", "Mango"], None, h)
    pet = r.choice(["cat", "dog", "hamster", "rabbit"])
    mat = r.choice(["an old water tank", "tin cans and a bathtub", "a wine barrel and two bicycles".replace("wine", "rain")])
    planet = r.choice([
        ("the moon", "a small round moon mouse in a silver suit", "moon mouse", "Our lamp is broken, and it is dark on this side", f"{h} gave it the flashlight from the rocket", "a moon stone that glowed in the dark"),
        ("a green planet", "a creature with three eyes and a polite smile", "creature", "We have no music, because nobody ever showed us how", f"{h} taught everyone there a song with three verses", "a flower that hummed"),
        ("a tiny red planet", "a little red robot with one bent antenna", "robot", "I was left here long ago, and my wheels are full of dust", f"{h} cleaned the wheels with a toothbrush and oiled them", "a compass that always pointed home")])
    return tell(r, [f"{h}'s Rocket", f"A Trip to {planet[0].title().replace('The','the').replace('A ','a ')}", "The Rocket in the Garden", "Up to the Stars"],
        [["rocket"], ["rocket", pet], ["trip to space"], ["inventor", "rocket"]],
        [(f"{h} was an inventor, even though {h.he} was only eight.", f"Behind {h.his} grandma's house, {h} was building a rocket.", f"{h} wanted to see the stars up close, so {h.he} decided to build a rocket."),
         (f"{h.He} made it out of {mat}.", f"It was built from {mat}, with a garden chair inside."),
         (f"{h.His} {pet} {p} handed {h.him} the tools, or at least sat on them.", f"{p} the {pet} watched from a flowerpot."),
         ("The first time, the rocket only coughed.", "On the first try, it rose as high as the fence and fell into the compost."),
         (f"The second time it flew backward into the pond. {h} dried it and made a list of what went wrong.", f"~I forgot something,~ said {h}. {h.He} thought for a week, and then {h.he} turned the engine the right way around.")],
        [("On the next try it worked.", "Then came a clear night, and everything was ready."),
         ("~Three, two, one, go!~ With a whoosh they shot up into the sky.", f"{h} pushed the big button. The houses grew small, and then the whole Earth was a blue ball."),
         (f"{p} floated past with all four paws in the air.", f"Inside, the spoons floated, and so did {p}."),
         (f"After a while they landed softly on {planet[0]}.", f"Before long they came to {planet[0]}, and they landed with a bump.")],
        [(f"There they met {planet[1]}.", f"From behind a rock came {planet[1]}."),
         (f"~Welcome,~ it said sadly.", f"~Visitors!~ it cried, and then it sighed."),
         (f"~What is wrong?~ asked {h}.", f"~You look worried,~ said {h}. ~Tell me about it.~"),
         f"~{planet[3]},~ said the {planet[2]}.",
         (f"~An inventor can always do something,~ said {h}.", f"{h} thought hard and looked through all {h.his} pockets.", ""),
         f"{planet[4]}.",
         (f"The {planet[2]} was so happy that it did a slow somersault.", f"~You have made everything better!~ said the {planet[2]}.")],
        [(f"Before they left, it gave {h} {planet[5]}.", f"When it was time to go, {h} got a gift: {planet[5]}."),
         ("They flew home through the quiet dark and landed just before breakfast.", "The sun was coming up when the rocket came down between the cabbages."),
         (f"~You are up early,~ said {h.his} grandma, who was making pancakes.", f"{h.His} grandma was already making pancakes. ~You have stardust in your hair,~ she said."),
         (f"{h} smiled at {p}. ~We went a bit farther than usual,~ {h.he} said.", f"{h} laughed and told her all about it, and {p} fell asleep under the table.", f"{h} ate four pancakes and began to draw plans for the next trip.")])


def grumpy_witch(r):
    w = being(r, ["Griselda", "Hester", "Mab", "Zelda", "Ottilie", "Brunhilda"], True)
    h = who(r, w)
    thing = r.choice(["broom", "kettle", "black cat", "wand"])
    does = {"broom": "flew around the kitchen by itself and would not let anyone ride it", "kettle": "whistled rude tunes all day", "black cat": "had turned bright pink and sat sulking under the bed", "wand": "shot out nothing but soap suds"}[thing]
    ok = {"broom": "The broom came down and leaned against her shoulder like a tired dog", "kettle": "The kettle began to hum a soft, sweet tune", "black cat": "The cat came out, as black as ever, and purred", "wand": "The wand gave a small golden spark"}[thing]
    return tell(r, ["The Grumpy Witch", f"{w} the Witch", f"{h} and the Grumpy Witch", f"The Witch and Her {thing.title()}"],
        [["witch"], ["grumpy witch"], ["witch", thing], ["witch", h.kid]],
        [(f"At the end of Crooked Lane lived a grumpy witch named {w}.", f"{w} was a witch, and she was always in a bad mood.", f"There was once a witch called {w}, who grumbled from morning to night."),
         ("She grumbled at the sun for shining and at the rain for falling.", "", "She said ~Hmph~ instead of good morning."),
         ("On her door hung a sign: ~Go away. This means you.~", "The sign on her door said, ~Go away. This means you.~"),
         (f"Nobody visited her, and that was how she liked it, or so she said.", "She told everyone that she did not need anybody.")],
        [(f"One day a {h.kid} named {h} heard a crash from her house.", f"One morning {h}, the {h.kid} next door, heard terrible shouting."),
         (f"{h.He} was a bit afraid, but {h.he} knocked.", f"{h} read the sign, took a deep breath, and knocked anyway."),
         (f"~What?~ snapped {w}. ~Can't you see I have trouble?~", f"The door flew open. ~Go home!~ said {w}. ~My magic has gone wrong!~"),
         (f"And it was true. Her {thing} {does}.", f"{h} looked past her. The witch's {thing} {does}.")],
        [(f"~I have tried every spell in the book,~ said {w}.", f"~I ordered it to stop,~ said {w}, ~and I stamped my foot. It only got worse.~"),
         (f"She tried another spell, but it went wrong, and a pot of glue fell on her toes.", f"She shouted a long magic word. Bang! Now her hair was green as well."),
         (f"~May I ask something?~ said {h}. ~When did you last say something nice to it?~", f"~Maybe it is unhappy,~ said {h}. ~Do you ever say thank you?~"),
         (f"{w} opened her mouth and shut it again.", f"~Nice?~ said {w}, as if it were a word from another language.")],
        [("~Try it,~ said " + f"{h}.", f"~It does not cost anything,~ {h} said with a smile."),
         (f"The witch turned red. ~Well,~ she mumbled, ~you have always been a very good {thing}.~", f"{w} coughed three times. ~Dear {thing},~ she said at last, ~thank you for all your work.~"),
         ("For a moment nothing happened.", "It was very quiet in the kitchen.", ""),
         f"Then something changed. {ok}.",
         (f"~Well, I never,~ said {w}, and she sat down.", f"{w} was so surprised that she smiled, and her face creaked a little.")],
        [(f"~Would you like some tea?~ she asked {h}.", f"She cut a large piece of plum cake for {h}. ~For you,~ she said. ~And thank you.~"),
         (f"It felt so good to say it that she said it again to the teapot and the chair.", "It was the first time in fifty years that she had a guest."),
         (f"The next day there was a new sign on the door: ~Please knock. There is cake.~", f"The sign on the door was changed. Now it said, ~Come in. This means you, too.~"),
         (f"She still grumbled on Mondays, but {h} did not mind.", f"And {h} came in every afternoon, to learn a little magic and to teach a little, too.")])


def whale_ship(r):
    h = who(r)
    c = who(r, h)
    ship = r.choice(["the Swallow", "the Silver Fish", "the Morning Star", "the Old Duck"])
    prob = r.choice([
        ("a rope was wrapped tightly around its tail", f"{h} climbed down the ladder with a knife and cut the rope, strand by strand", "fog"),
        ("its calf had swum into a small bay and could not find the way out", f"{h} rowed into the bay in a little boat and sang, and the baby whale followed the song out to its mother", "storm"),
        ("an anchor hook was stuck in its fin", f"{h} slid into the water, held on to the fin, and pulled the hook out as gently as {h.he} could", "fog")])
    bad = r.choice(["fog", "storm"])
    return tell(r, ["The Whale and the Ship", f"{h} and the Whale", "A Friend in the Sea"],
        [["whale"], ["whale", "ship"], ["whale", "sailor"], ["sailor", "whale"]],
        [(f"{h} was the cook's helper on a ship called {ship}.", f"On {ship}, a ship with three brown sails, worked a {h.kid} named {h}.", f"{h} was young and small, but {h.he} had always wanted to go to sea. So {h.he} became a helper on {ship}."),
         (f"{c}, the captain, was strict but fair.", f"The captain was called {c}, and {c.he} knew every star in the sky."),
         (f"All day {h} peeled potatoes, and in the evening {h.he} sat at the rail and looked at the waves.", f"{h.His} job was to wash the pots, and {h.his} free time belonged to the sea.")],
        [("One calm evening a whale came up beside the ship.", "One morning there was a great splash, and a whale lifted its head out of the water."),
         ("~It will tip us over!~ cried a sailor.", "The sailors were afraid and beat on pots to chase it away."),
         ("But it stayed, and it made a long, sad sound.", f"But {h} saw its eye. It was a gentle eye, and it looked sad."),
         (f"Then {h} noticed that {prob[0]}.", f"~Look,~ said {h}. ~It needs help.~ And now they all saw that {prob[0]}.")],
        [(f"The sailors tried to help with long poles, but they could not do it.", f"A big sailor tried to reach out from the deck, but his arms were not long enough."),
         (f"~I will do it,~ said {h}. ~I am small and quick.~", f"{h} asked {c} for permission. ~Go,~ said the captain, ~but tie a line around your waist.~"),
         f"{prob[1]}.",
         ("The whale blew a fountain into the air and was gone.", "The whale looked up at the ship once more and dived down into the blue.")],
        [("A month later they came into thick fog, close to the rocks." if bad == "fog" else "A month later a wild storm broke the rudder, and the ship drifted toward the rocks.",
          "Weeks went by. Then one night such a fog came down that no one could see his own hand." if bad == "fog" else "Weeks passed. Then a great storm came, tore the sails, and pushed them toward a rocky coast."),
         ("~I can't steer if I can't see,~ said the captain." if bad == "fog" else "~I can't steer her anymore,~ said the captain.",),
         (f"Then {h} heard a sound {h.he} knew, a long, deep call.", f"Suddenly {h} cried, ~Listen!~ From the water came a deep song."),
         ("It was the whale! It swam ahead of them and sang, and they followed its voice until the water was deep and safe." if bad == "fog" else "It was the whale! It put its broad back against the ship and pushed it, slowly and surely, out to the open sea.",
          "The whale had come back. Calling and calling, it led them between the rocks, all the way to the harbor." if bad == "fog" else "The whale had come back. They threw it a rope, and it pulled them away from the rocks and into a quiet bay.")],
        [(f"~We have you to thank for this,~ {c} said to {h}.", f"The captain took off {c.his} hat to {h}, and then {c.he} took it off to the whale as well."),
         (f"~No,~ said {h}. ~We helped it, and it helped us. That is how the sea works.~", f"{h} leaned over the rail and waved. ~Thank you, friend,~ {h.he} called."),
         ("And far out in the evening light, a big tail waved back.", f"From that day on, the ship had a picture of a whale on its flag.", "")])


def flying_machine(r):
    h = who(r)
    n = who(r, h)
    t = r.choice(TOWNS)
    base = r.choice(["umbrellas", "bed sheets", "goose feathers", "old sails"])
    need = r.choice([("the doctor lived on the other side of the flooded river, and a baby was sick", "fetch the doctor", "The doctor held on to her hat the whole way, and the baby was well again by evening"),
                     ("two children were stuck on an island in the flooded river", "bring them home", "One after the other, the children were carried safely over the brown water"),
                     ("the bridge had been washed away, and the village on the other side had no bread", "carry bread across", "Ten times it went back and forth, with a sack of warm bread each time")])
    return tell(r, ["The Flying Machine", f"{h} the Inventor", f"The Inventor of {t}"],
        [["inventor"], ["flying machine"], ["inventor", "flying machine"], ["inventor", "village"]],
        [(f"In {t} lived an inventor named {h}, whose inventions never quite worked.", f"{h} was an inventor, and every week something in {h.his} workshop went bang.", f"There was once an inventor called {h}, who had more ideas than socks."),
         (f"There was a machine that buttered toast on the wrong side, and a bed that threw you out too early.", f"{h.His} rain hat filled up with water, and {h.his} singing stove only knew one note."),
         ("The people laughed, but not in a mean way.", "~Poor thing,~ said the neighbors. ~Nothing ever works.~"),
         (f"Only {n}, the {n.kid} next door, came every day to hold the ladder.", f"But {n}, a {n.kid} from across the street, thought that {h} was the cleverest person in the world.")],
        [(f"~Now I will build a machine that can fly,~ {h} told {n}.", f"That spring {h} began {h.his} greatest work, a flying machine."),
         (f"{h.He} made the wings from {base}.", f"It had a wooden seat, two pedals, and wings made of {base}."),
         (f"The first one flew as far as the duck pond. Splash!", f"On the first flight it turned upside down and hung in a pear tree."),
         (f"The second one went up, but only in circles, until {h} was dizzy.", f"On the next try a wing fell off, and {h} landed in a haystack."),
         (f"~I should give up,~ said {h}, picking straw out of {h.his} hair.", f"~Perhaps they are right about me,~ {h} said sadly.")],
        [(f"~Each time it was a little better,~ said {n}. ~What did we learn?~", f"~But it flew,~ said {n}. ~Let us find out why it stopped.~"),
         (f"So they sat down and thought. They watched how the swallows turned, and {n} saw that they used their tails.", f"They watched a crow for a whole morning. ~It has a tail!~ cried {n}. ~We forgot the tail!~"),
         (f"{h} slapped {h.his} forehead and built one that same night.", f"They built a tail out of a kite and a broomstick.")],
        [("Then the great rain came, and the river rose.", "A week later there was a flood."),
         (f"News came that {need[0]}.", f"Everyone was worried, because {need[0]}."),
         ("No boat could get across.", "The water was much too wild for any boat."),
         (f"~My machine can {need[1]},~ said {h}, and this time nobody laughed.", f"~We can {need[1]}!~ cried {n}. ~We have wings!~"),
         (f"{h} pedaled with all {h.his} strength, and the machine rose over the roofs, steady as a gull.", f"{h} climbed onto the seat, {n} gave a push, and up it went, straight and smooth."),
         f"{need[2]}."],
        [(f"The whole village carried {h} and {n} home on their shoulders.", f"That night there was a party, and {h} and {n} got the two best chairs."),
         (f"~How did you do it after so many mistakes?~ asked the mayor.", f"~All those mistakes!~ said the mayor. ~And now this!~"),
         (f"~They were not mistakes,~ said {n}. ~They were steps.~", f"~It took every one of them,~ said {h}, and {h.he} winked at {n}."),
         (f"And the next morning there was a bang from the workshop again.", "")])


SCHEMAS = [dragon_no_fire, baker_giant, three_tasks, wish_well, lighthouse_dark, king_laugh, map_mistake,
           robot_friend, moon_button, smallest_knight, troll_riddle, magic_brush, well_answered, no_rain,
           clock_back, tailor_thread, paper_boat, star_barn, princess_repairs, wizard_hat, treasure_not_gold,
           singing_mountain, ice_queen, letter_bottle, soldier_stew, giant_birthday, desert_water, rocket,
           grumpy_witch, whale_ship, flying_machine]
